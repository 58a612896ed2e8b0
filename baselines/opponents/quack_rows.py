"""quack's kernels of rows, ``quack-kernels``: CuTe DSL, compiled at the first call, into the given outputs."""

from collections.abc import Callable
from typing import Any, Final

from harness.catalog.opponents import Opponent
from harness.judge.facts.problem import Problem


def build(problem: Problem) -> Callable[..., None]:
    # The package's own functions take no outputs, and those under them do.
    if problem.operator == "softmax":
        from quack.softmax import _softmax_fwd as softmax

        return softmax  # type: ignore[no-any-return]
    if problem.operator == "crossentropy":
        from quack.cross_entropy import cross_entropy_fwd_out

        def loss_of(logits: Any, target: Any, loss: Any, lse: Any) -> None:
            cross_entropy_fwd_out(logits, target, None, loss, lse, None, None)

        return loss_of
    from quack.rmsnorm import _rmsnorm_fwd

    def norm(x: Any, residual: Any, weight: Any, y: Any, total: Any) -> None:
        _rmsnorm_fwd(x, weight, y, residual=residual, residual_out=total, eps=problem.scalars["eps"])

    return norm


OPPONENTS: Final = (
    Opponent(
        name="quack_rows",
        what="quack's RMSNorm, softmax and cross entropy in CuTe DSL.",
        build=build,
        operators=dict.fromkeys(("rmsnorm", "softmax", "crossentropy"), ("bf16", "fp16", "f32")),
        architectures=("sm_90a", "sm_100a"),
        requires=("quack-kernels==0.6.5", "nvidia-cutlass-dsl[cu13]==4.8.1"),
        extra="opponents-quack",
        licence="Apache-2.0",
        source="https://github.com/Dao-AILab/quack",
    ),
)
