"""The gated delta rule in two launches: what a chunk decides alone, for all chunks at once; then state by state."""

import tilelang.language as T

from harness.iteration import Problem, Program
from kernels.gated_delta.chunks import INVERSES, prepare
from kernels.gated_delta.sizes import Between, DeltaSizes
from kernels.gated_delta.states import DeltaRing, pipelined, specialized
from kernels.operands import require


def gated_delta(
    problem: Problem,
    *,
    inverse: str,
    specialize: bool,
    num_stages: int,
    output_group: bool = False,
    slots: int = 1,
) -> Program:
    """O[B,S,H,V] and the state T[B,H,K,V] of the gated delta rule, 64 tokens of a chunk at a time.

    What a chunk's tokens add follows from a triangular system, R = I + A. The first launch inverts R for every chunk
    and leaves - R⁻¹ diag(rate exp(-since)) K, R⁻¹ diag(rate) V and the weights among the tokens: see ``Between``. The
    second has a block for each head and 64 columns of V. From chunk to chunk it needs two products: one for what is
    added, one for the state, which stays in float32 registers. Gates are sums in log space until their last power.

    Levers:

    - ``inverse``: "substitution" takes 64 steps in float32; "blocks" takes 16, and four products of 16-bit tiles.
    - ``specialize``: the second launch has a producer warp that loads ahead by TMA, and waits of its own. Else it is
      one warp group, and TileLang pipelines its loads.
    - ``num_stages`` of the ring of chunks.
    - ``output_group``: a second warp group makes the outputs; only with ``specialize``.
    - ``slots``: states and additions that the first group may be ahead of the second.

    Limits: sm_90a; bf16 and fp16; K and V of 64 or 128; whole chunks of 64 tokens. The second launch has
    B * H * V / 64 blocks, which should fill the SMs. Between the launches lie K + V + 64 numbers of 16 bits for each
    token.
    """
    sizes = DeltaSizes.of(problem)
    require(specialize or not output_group, "output_group=True needs specialize=True")
    require(inverse in INVERSES, f"inverse='{inverse}' is not one of {', '.join(INVERSES)}")
    ring = DeltaRing(sizes=sizes, num_stages=num_stages, output_group=output_group, slots=slots)
    first = prepare(sizes, inverse)
    second = specialized(ring) if specialize else pipelined(sizes, num_stages)
    keys_shape, _, values_shape, gates_shape, _ = problem.inputs
    (_, _), (state_shape, _) = problem.outputs
    erased_shape, written_shape, weights_shape, factors_shape = (each.shape for each in sizes.workspaces)
    dtype = sizes.dtype

    @T.prim_func
    def main(
        Q: T.Tensor(keys_shape, dtype),
        K: T.Tensor(keys_shape, dtype),
        V: T.Tensor(values_shape, dtype),
        decay: T.Tensor(gates_shape, "float32"),
        rate: T.Tensor(gates_shape, "float32"),
        Out: T.Tensor(values_shape, dtype),
        State: T.Tensor(state_shape, dtype),
        erased: T.Tensor(erased_shape, dtype),
        written: T.Tensor(written_shape, dtype),
        weights: T.Tensor(weights_shape, dtype),
        gates: T.Tensor(factors_shape, "float32"),
    ):
        first(Q, K, V, decay, rate, Between(erased, written, weights, gates))
        second(Q, K, Out, State, Between(erased, written, weights, gates))

    return Program(
        main,
        pass_configs={
            "tl.disable_shared_memory_reuse": True,  # warp groups run at their own pace
            "tl.enable_fast_math": True,  # expf is one MUFU and a product then
            "tl.disable_safe_memory_legalize": True,  # it guards each access; all stand inside their tensors
            "tl.disable_thread_storage_sync": specialize,  # barriers stand where they are needed
        },
        workspaces=sizes.workspaces,
    )
