"""A problem's sizes as both launches see them, and what the first leaves to the second."""

from dataclasses import dataclass
from typing import Any, Self

import tilelang.language as T

from harness.iteration import Problem, Workspace
from kernels.operands import require

CHUNK = 64  # tokens: the M and the depth of a WGMMA's tile
COLUMNS = 64  # of V in a block of the second launch: the M of a WGMMA, since the state lies transposed


@dataclass(frozen=True)
class DeltaSizes:
    """The dimensions of a problem. Raises ValueError for what cannot work."""

    batches: int
    heads: int
    tokens: int
    depth: int  # of Q and K
    width: int  # of V and of the output
    dtype: str

    @classmethod
    def of(cls, problem: Problem) -> Self:
        require(problem.operator == "gateddelta", f"{problem}: operator '{problem.operator}' is not gateddelta")
        batches, heads, tokens, depth, width = problem.dims
        return cls(batches, heads, tokens, depth, width, problem.input)

    def __post_init__(self) -> None:
        require(self.dtype in ("float16", "bfloat16"), f"{self.dtype} inputs are not supported, only 16-bit ones")
        require(
            self.depth in (64, 128) and self.width in (64, 128),
            f"keys of {self.depth} and values of {self.width} are not of 64 or 128",
        )
        require(self.tokens % CHUNK == 0, f"{self.tokens} tokens are no multiple of {CHUNK}, a chunk")

    @property
    def chunks(self) -> int:
        return self.tokens // CHUNK

    @property
    def workspaces(self) -> tuple[Workspace, ...]:
        """What a chunk alone decides: see ``Between``."""
        rows = self.batches * self.tokens
        return (
            Workspace((rows, self.heads, self.depth), self.dtype),
            Workspace((self.batches, self.heads, self.chunks, self.width, CHUNK), self.dtype),
            Workspace((rows, self.heads, CHUNK), self.dtype),
            Workspace((self.batches, self.heads, self.chunks, 2, CHUNK), "float32"),
        )


@dataclass(frozen=True)
class Between:
    """What the first launch leaves: with R = I + A the system of a chunk, all in the order of memory.

    erased[row, head, K]                - R⁻¹ diag(rate exp(-since)) K: what the state before adds to each token
    written[batch, head, chunk, V, C]   (R⁻¹ diag(rate) V) transposed: what the values add
    weights[row, head, C]               tril(Q Kᵀ exp(since_j - since_i)): of each token before, in an output
    gates[batch, head, chunk, 2, C]     exp(-since) from the chunk's start, and exp(since - last) to its end
    """

    erased: Any
    written: Any
    weights: Any
    gates: Any


@T.macro
def ready(barriers: Any, index: Any) -> None:
    """One thread of a warp says that the loads so far are all that the barrier has to wait for."""
    if T.shuffle_elect(32):
        T.mbarrier_arrive(barriers[index])
