"""A block of threads at the gradients: its geometry, its shared memory, and the registers of each consumer group.

Warp group 0 is the producer. Each of two consumer groups has 64 keys, one WGMMA high. It holds the gradients of their
K and V in registers, while the block goes through the queries that see them, 64 at a time.
"""

from dataclasses import dataclass
from math import e, log2, sqrt
from typing import Any, Self

import tilelang.language as T

from harness.iteration import Problem
from kernels.hopper import GROUP, require_shared
from kernels.operands import ceildiv, require

ROWS = 64  # keys of a consumer group: the M of a WGMMA; also queries of a step
GROUPS = 2
BLOCK_N = GROUPS * ROWS  # keys of a block
MASKED = BLOCK_N // ROWS  # steps of a block that cross its diagonal
THREADS = (GROUPS + 1) * GROUP
REGISTERS = (24, 240)  # of a thread: producer, consumer
STATISTICS = 2  # of each query: the logarithm to base 2 of its sum, and the product of its output and gradient
WARP = 32  # threads

# Words of a counter: whether dQ of its 64 queries is finished. Of a head's first one also the blocks that have ended,
# and the warps that have stored its statistics.
FINISHED, ADDED, READY = range(3)


@dataclass(frozen=True, kw_only=True)
class GradientBlock:
    """A problem's sizes and the levers that take shared memory. Raises ValueError for what cannot work."""

    batches: int
    heads: int
    tokens: int
    depth: int
    dtype: str
    num_stages: int
    bulk_add: bool
    alternate: bool
    heads_at_once: int
    finish_within: bool
    statistics_within: bool
    num_sms: int

    @classmethod
    def of(cls, problem: Problem, **levers: Any) -> Self:
        require(
            problem.operator == "attentionbackward",
            f"{problem}: operator '{problem.operator}' is not attentionbackward",
        )
        batches, heads, tokens, depth = problem.dims
        return cls(batches=batches, heads=heads, tokens=tokens, depth=depth, dtype=problem.input, **levers)

    def __post_init__(self) -> None:
        require(self.dtype in ("float16", "bfloat16"), f"{self.dtype} inputs are not supported, only 16-bit ones")
        require(self.depth == 128, f"heads of {self.depth} are not of 128")
        require(self.tokens % BLOCK_N == 0, f"{self.tokens} tokens are not a multiple of {BLOCK_N}")
        require(self.num_stages >= 1, f"num_stages={self.num_stages} is not positive")
        require(
            self.heads_at_once >= 1 and self.all_heads % self.heads_at_once == 0,
            f"heads_at_once={self.heads_at_once} does not divide the {self.all_heads} heads of the batch",
        )
        require(
            not (self.bulk_add and self.alternate),
            "alternate adds in bulk for the first group alone; leave bulk_add out",
        )
        require(
            not (self.bulk_groups and self.finish_within),
            "finish_within needs atomic additions, which a fence waits for; it does not wait for those in bulk",
        )
        require(
            not (self.finish_within and self.statistics_within),
            "warps beside the producer finish dQ or compute statistics; leave finish_within or statistics_within out",
        )
        require_shared(self.shared_bytes)

    @property
    def counter_words(self) -> int:
        return READY + self.statistics_within

    @property
    def all_heads(self) -> int:
        return self.batches * self.heads

    @property
    def rows(self) -> int:
        """Blocks of keys of a head."""
        return self.tokens // BLOCK_N

    @property
    def query_blocks(self) -> int:
        return self.tokens // ROWS

    @property
    def behind(self) -> int:
        """Heads from a block of threads back to the sums that it finishes.

        The longest block lasts while two waves of others start, so blocks of two and a half waves before have ended.
        """
        return self._heads_of(half_waves=5)

    @property
    def ahead(self) -> int:
        """Heads from a block of threads on to the head that it computes statistics of.

        It does so at its start, and the longer blocks come first. So those of one and a half waves later need not wait.
        """
        return self._heads_of(half_waves=3)

    def _heads_of(self, half_waves: int) -> int:
        at_once = self.heads_at_once
        return ceildiv(half_waves * self.num_sms, 2 * self.rows * at_once) * at_once

    @property
    def half(self) -> int:
        """Columns of dQ that a consumer group computes."""
        return self.depth // GROUPS

    @property
    def bulk_groups(self) -> int:
        """Consumer groups from the first on that add to the sums in bulk."""
        return GROUPS if self.bulk_add else int(self.alternate)

    @property
    def held_halves(self) -> int:
        """Halves of dQ of 64 queries for which shared memory has room."""
        return GROUPS if self.finish_within else self.bulk_groups

    @property
    def shared_bytes(self) -> int:
        keys_and_values = 2 * BLOCK_N * self.depth
        queries = self.num_stages * 2 * ROWS * self.depth
        scores = BLOCK_N * ROWS
        floats = self.num_stages * STATISTICS * ROWS + ROWS * self.half * self.held_halves
        return 2 * (keys_and_values + queries + scores) + 4 * floats

    @property
    def scale(self) -> float:
        return 1 / sqrt(self.depth)

    @property
    def to_log2(self) -> float:
        """The factor from q · k to an exponent of 2."""
        return log2(e) * self.scale

    def place(self, number: Any) -> tuple[Any, Any]:
        """(row of keys, head over the batch) of a block of threads: the rows that most queries see come first."""
        section = self.rows * self.heads_at_once
        row = number % section // self.heads_at_once
        return row, number // section * self.heads_at_once + number % self.heads_at_once

    def steps(self, row: Any) -> Any:
        """Blocks of 64 queries that see a row of keys."""
        return self.query_blocks - row * MASKED

    def queries(self, number: Any) -> tuple[Any, Any, Any]:
        """(batch, head, block of 64) of all queries in a row."""
        head = number // self.query_blocks
        return head // self.heads, head % self.heads, number % self.query_blocks


@dataclass(frozen=True)
class GradientTiles:
    """Tiles in shared memory, and the barriers that hand them over.

    What a group writes is a buffer of its own: TileLang then stores it by ``stmatrix``, 16 bytes of a thread at a time.
    """

    K: list[Any]  # each group's keys
    V: list[Any]
    Q: Any
    dO: Any
    dS: list[Any]
    sums: Any  # each group's half of dQ on its way, in the order of registers; None where none passes
    statistics: Any
    K_full: Any
    V_full: Any
    Q_full: Any
    Q_empty: Any
    dO_full: Any
    dO_empty: Any


@dataclass(frozen=True)
class GradientRegisters:
    """What a consumer group keeps: P and dS with their 16-bit copies, all transposed, and its gradients.

    dQ of a step has the registers of dS. To ptxas a product reads what it overwrites, so dQ's own would never be free.
    """

    P: Any
    P16: Any
    dS: Any
    dS16: Any
    dK: Any
    dV: Any

    @property
    def dQ(self) -> Any:
        return self.dS


@T.macro
def allocate_shared(block: GradientBlock) -> GradientTiles:
    queries = (block.num_stages, ROWS, block.depth)
    K = [T.alloc_shared((ROWS, block.depth), block.dtype) for _ in range(GROUPS)]
    V = [T.alloc_shared((ROWS, block.depth), block.dtype) for _ in range(GROUPS)]
    Q = T.alloc_shared(queries, block.dtype)
    dO = T.alloc_shared(queries, block.dtype)
    dS = [T.alloc_shared((ROWS, ROWS), block.dtype) for _ in range(GROUPS)]
    sums = T.alloc_shared((block.held_halves, ROWS * block.half), "float32") if block.held_halves else None
    statistics = T.alloc_shared((block.num_stages, STATISTICS * ROWS), "float32")
    K_full = T.alloc_barrier([1] * GROUPS)
    V_full = T.alloc_barrier([1] * GROUPS)
    Q_full = T.alloc_barrier([1] * block.num_stages)
    Q_empty = T.alloc_barrier([GROUPS] * block.num_stages)
    dO_full = T.alloc_barrier([1] * block.num_stages)
    dO_empty = T.alloc_barrier([GROUPS] * block.num_stages)
    return GradientTiles(K, V, Q, dO, dS, sums, statistics, K_full, V_full, Q_full, Q_empty, dO_full, dO_empty)


@T.macro
def allocate_registers(block: GradientBlock) -> list[GradientRegisters]:
    square, wide = (ROWS, ROWS), (ROWS, block.depth)
    P = [T.alloc_fragment(square, "float32") for _ in range(GROUPS)]
    P16 = [T.alloc_fragment(square, block.dtype) for _ in range(GROUPS)]
    dS = [T.alloc_fragment(square, "float32") for _ in range(GROUPS)]
    dS16 = [T.alloc_fragment(square, block.dtype) for _ in range(GROUPS)]
    dK = [T.alloc_fragment(wide, "float32") for _ in range(GROUPS)]
    dV = [T.alloc_fragment(wide, "float32") for _ in range(GROUPS)]
    return [GradientRegisters(P[g], P16[g], dS[g], dS16[g], dK[g], dV[g]) for g in range(GROUPS)]
