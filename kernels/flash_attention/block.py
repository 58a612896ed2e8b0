"""A block of threads at attention: its geometry, its shared memory, and the registers of each consumer group.

Warp group 0 is the producer: one warp of it issues all TMA loads. Every further warp group is a consumer: it has 64
queries of the tile, one WGMMA high, and the whole state of their softmax in registers.
"""

from dataclasses import dataclass, replace
from math import e, log2, sqrt
from typing import Any, Final, Self

import tilelang.language as T

from harness.iteration import Problem
from kernels.hopper import GROUP, require_shared
from kernels.operands import ceildiv, require

ROWS = 64  # queries of a consumer group: the M of a WGMMA
MAX_LOG2: Final = 15.0  # powers of two that float16 holds
EPILOGUE_N = 64  # columns of an epilogue buffer: what one TMA store takes of 16-bit rows in its widest swizzle
REGISTERS = {2: (40, 232), 3: (32, 160)}  # of a thread (producer, consumer), by consumer groups


@dataclass(frozen=True, kw_only=True)
class Block:
    """Geometry of a block and the problem's sizes; what cannot work raises ValueError here."""

    batches: int
    heads: int
    kv_heads: int
    tokens: int
    depth: int  # of Q and K
    width: int  # of V and of the output
    dtype: str
    causal: bool
    block_N: int  # keys of a block of keys
    num_stages: int
    consumer_groups: int
    ahead: bool
    epilogue_buffers: int  # of each consumer group; 0: the output leaves from registers
    one_array: bool = False  # of all epilogue buffers of a consumer group, with a name of its own
    one_text: bool = False  # the consumer groups run the same instructions, with their number in a register
    cluster: int = 1  # blocks that share each load of K and of V

    @classmethod
    def of(cls, problem: Problem, **levers: Any) -> Self:
        operator = problem.operator
        require(operator in ("attention", "causalattention"), f"{problem}: operator '{operator}' is not attention")
        batches, heads, kv_heads, tokens, depth, width = problem.dims
        return cls(
            batches=batches,
            heads=heads,
            kv_heads=kv_heads,
            tokens=tokens,
            depth=depth,
            width=width,
            dtype=problem.input,
            causal=operator == "causalattention",
            **levers,
        )

    def __post_init__(self) -> None:
        require(self.dtype in ("float16", "bfloat16"), f"{self.dtype} inputs are not supported, only 16-bit ones")
        require(self.heads % self.kv_heads == 0, f"{self.heads} heads cannot share {self.kv_heads} of keys")
        require(
            self.depth % 64 == 0 and self.width % 64 == 0 and self.width <= 256,
            f"heads of {self.depth} and {self.width}: both must be multiples of 64, values up to 256",
        )
        require(self.consumer_groups in REGISTERS, f"consumer_groups={self.consumer_groups} is not 2 or 3")
        require(
            self.block_N % 16 == 0 and 16 <= self.block_N <= 256,
            f"block_N={self.block_N} is not a multiple of 16 up to 256",
        )
        require(
            self.cluster == 1 or (self.cluster == 2 and self.tokens % self.unit_M == 0),
            f"cluster={self.cluster} is not 1, or 2 with tokens in multiples of {self.unit_M}",
        )
        require(self.num_stages >= 1, f"num_stages={self.num_stages} is not positive")
        require(self.epilogue_buffers >= 0, f"epilogue_buffers={self.epilogue_buffers} is negative")
        require(
            not self.one_array or (self.consumer_groups == 2 and self.epilogue_buffers > 0 and not self.one_text),
            "one_array needs epilogue_buffers, two consumer_groups, and a text for each",
        )
        held = (self.block_N + self.width + self.block_N // 2) * ROWS // GROUP
        free = REGISTERS[self.consumer_groups][1] - 32
        require(
            held <= free,
            f"block_N={self.block_N}: scores, their 16-bit copy and {self.width} columns of output take {held} "
            f"registers of a thread; with {self.consumer_groups} consumer groups {free} are free",
        )
        require_shared(self.shared_bytes)

    @property
    def block_M(self) -> int:
        return ROWS * self.consumer_groups

    @property
    def unit_M(self) -> int:
        """Queries of a cluster, which has tiles side by side and goes through their keys in step."""
        return self.block_M * self.cluster

    @property
    def threads(self) -> int:
        return GROUP * (self.consumer_groups + 1)

    @property
    def registers(self) -> tuple[int, int]:
        """Registers of a producer's and of a consumer's thread."""
        return REGISTERS[self.consumer_groups]

    @property
    def Q_stages(self) -> int:
        return 2 if self.ahead else 1

    @property
    def shared_bytes(self) -> int:
        queries = self.Q_stages * self.block_M * self.depth
        outputs = self.epilogue_buffers * self.block_M * EPILOGUE_N
        return 2 * (queries + self.num_stages * self.block_N * (self.depth + self.width) + outputs)

    @property
    def shared_heads(self) -> int:
        """Heads of queries that share one of keys."""
        return self.heads // self.kv_heads

    @property
    def to_log2(self) -> float:
        """The factor from q · k to an exponent of 2."""
        return log2(e) / sqrt(self.depth)

    @property
    def masked(self) -> int:
        """How many of a cluster's first blocks of keys cross its diagonal or the end of the keys."""
        if self.causal:
            return ceildiv(self.unit_M, self.block_N) + (self.unit_M % self.block_N != 0)
        return int(self.tokens % self.block_N != 0)


@dataclass(frozen=True)
class Shared:
    """Tiles in shared memory, and the barriers that hand them over; each consumer group has its own of Q."""

    Q: Any
    K: Any
    V: Any
    outputs: list[Any]  # each consumer group's epilogue buffers, in a list or in an array
    Q_full: Any
    Q_empty: Any
    K_full: Any
    K_empty: Any
    V_full: Any
    V_empty: Any


@dataclass(frozen=True)
class Registers:
    """What a consumer group keeps: scores, their 16-bit copy, the output, and the softmax's state of each row."""

    S: Any
    powers: Any  # S itself, unless scores outlive their powers
    P: Any
    out: Any
    maximum: Any
    before: Any
    scale: Any
    sum: Any
    total: Any
    inverse: Any


@dataclass(frozen=True)
class Consumer:
    """One consumer group, with what it works on."""

    block: Block
    shared: Shared
    registers: Registers
    thread: Any
    group: Any  # an expression where the groups share one text
    ping_pong: bool
    partial_sums: bool
    by_row: bool = False
    early_wait: bool = False
    late_wait: bool = False
    growth: float = 0.0
    powers_first: int = 0
    keeps_maxima: bool = False
    exact_weights: bool = False

    @property
    def awaits_loads(self) -> bool:
        """Whether it waits for loads before its turn: the first group, or each where a text has no number in it."""
        return self.block.one_text or bool(self.group == 0)

    @property
    def splits_powers(self) -> bool:
        """Whether the wait for P V parts the powers of an ordinary softmax; kept maxima part their own."""
        return self.powers_first > 0 and not self.keeps_maxima

    def numbered(self, group: int) -> Self:
        return replace(self, group=group)


@T.macro
def allocate_lists(block: Block) -> list[list[Any]]:
    outputs = [
        [T.alloc_shared((ROWS, EPILOGUE_N), block.dtype) for _ in range(block.epilogue_buffers)]
        for _ in range(block.consumer_groups)
    ]
    return outputs


@T.macro
def allocate_arrays(block: Block) -> list[Any]:
    """An assignment each, which names the array: TileLang orders buffers of one name by their addresses."""
    first_outputs = T.alloc_shared((block.epilogue_buffers, ROWS, EPILOGUE_N), block.dtype)
    second_outputs = T.alloc_shared((block.epilogue_buffers, ROWS, EPILOGUE_N), block.dtype)
    return [first_outputs, second_outputs]


@T.macro
def allocate_shared(block: Block) -> Shared:
    queries = T.alloc_shared((block.Q_stages * block.consumer_groups, ROWS, block.depth), block.dtype)
    keys = T.alloc_shared((block.num_stages, block.block_N, block.depth), block.dtype)
    values = T.alloc_shared((block.num_stages, block.block_N, block.width), block.dtype)
    outputs = allocate_arrays(block) if block.one_array else allocate_lists(block)
    Q_full = T.alloc_barrier([1] * (block.Q_stages * block.consumer_groups))
    Q_empty = T.alloc_barrier([1] * (block.Q_stages * block.consumer_groups))
    K_full = T.alloc_barrier([1] * block.num_stages)
    freed_by = [block.consumer_groups * block.cluster] * block.num_stages
    alloc_empty = T.alloc_cluster_barrier if block.cluster > 1 else T.alloc_barrier
    K_empty = alloc_empty(freed_by)
    V_full = T.alloc_barrier([1] * block.num_stages)
    V_empty = alloc_empty(freed_by)
    return Shared(queries, keys, values, outputs, Q_full, Q_empty, K_full, K_empty, V_full, V_empty)


@T.macro
def allocate_registers(block: Block, keeps_maxima: bool = False) -> list[Registers]:
    groups = range(1 if block.one_text else block.consumer_groups)
    S = [T.alloc_fragment((ROWS, block.block_N), "float32") for _ in groups]
    powers = [T.alloc_fragment((ROWS, block.block_N), "float32") for _ in groups] if keeps_maxima else S
    P = [T.alloc_fragment((ROWS, block.block_N), block.dtype) for _ in groups]
    outputs = [T.alloc_fragment((ROWS, block.width), "float32") for _ in groups]
    rows = [[T.alloc_fragment((ROWS,), "float32") for _ in range(6)] for _ in groups]
    return [Registers(S[group], powers[group], P[group], outputs[group], *rows[group]) for group in groups]
