"""Tiles of queries: their order, and the block of the grid that takes each."""

from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import Any, Self

import tilelang.language as T

from kernels.flash_attention.block import Block
from kernels.operands import ceildiv, require

BETWEEN_TILES = 1.0  # a tile's fixed cost, in blocks of keys


@dataclass(frozen=True)
class Tiles:
    """All tiles of queries of all heads, ``heads_at_once`` heads at a time; heads count over the batch too.

    In a grid of clusters, a tile here is all that a cluster takes at a time, and a block is a cluster.

    Tiles of a few heads run at once, so that their keys and values stay in L2. A causal tile's work depends on its
    row. The longest come first, and a schedule made beforehand gives each to the block that is free first.
    """

    rows: int  # tiles of a head
    heads: int
    heads_at_once: int
    blocks: int  # of the grid
    block_M: int
    block_N: int
    tokens: int
    causal: bool

    @classmethod
    def of(cls, block: Block, heads_at_once: int, num_sms: int | None) -> Self:
        """A persistent grid of ``num_sms`` blocks; None: a block of threads for every tile."""
        rows, heads = ceildiv(block.tokens, block.unit_M), block.heads * block.batches
        require(
            heads_at_once >= 1 and heads % heads_at_once == 0,
            f"heads_at_once={heads_at_once} does not divide the {heads} heads of the batch",
        )
        require(
            num_sms is None or num_sms >= block.cluster, f"num_sms={num_sms} is not positive, or less than a cluster"
        )
        return cls(
            rows=rows,
            heads=heads,
            heads_at_once=heads_at_once,
            blocks=rows * heads if num_sms is None else min(num_sms // block.cluster, rows * heads),
            block_M=block.unit_M,
            block_N=block.block_N,
            tokens=block.tokens,
            causal=block.causal,
        )

    @property
    def total(self) -> int:
        return self.rows * self.heads

    @property
    def scheduled(self) -> bool:
        return self.causal and self.blocks < self.total

    @property
    def waves(self) -> int:
        """The most tiles that a block takes."""
        return max(map(len, self.schedule)) if self.scheduled else ceildiv(self.total, self.blocks)

    def decode(self, index: Any) -> tuple[Any, Any]:
        """(row, head) of a tile, as integers or as TileLang expressions."""
        section = self.rows * self.heads_at_once
        row = index % section // self.heads_at_once
        head = index // section * self.heads_at_once + index % self.heads_at_once
        return self.rows - 1 - row if self.causal else row, head

    def key_blocks(self, row: Any, least: Any = min) -> Any:
        """How many blocks of keys a row of tiles sees; ``least`` is T.min for expressions."""
        if self.causal:
            end = (row + 1) * self.block_M + self.block_N - 1
            return least(ceildiv(self.tokens, self.block_N), end // self.block_N)
        return ceildiv(self.tokens, self.block_N)

    @cached_property
    def schedule(self) -> list[list[int]]:
        """The tiles of each block: in their order, each tile goes to the block with the least work so far."""
        schedule: list[list[int]] = [[] for _ in range(self.blocks)]
        loads = [(0.0, block) for block in range(self.blocks)]
        heapify(loads)
        for index in range(self.total):
            load, block = heappop(loads)
            schedule[block].append(index)
            heappush(loads, (load + self.key_blocks(self.decode(index)[0]) + BETWEEN_TILES, block))
        return schedule

    @property
    def prelude(self) -> str:
        """The schedule as a table that the kernel reads."""
        if not self.scheduled:
            return ""
        lines = (", ".join(map(str, row + [-1] * (self.waves + 1 - len(row)))) for row in self.schedule)
        table = "},\n  {".join(lines)
        return f"""
static __device__ const int scheduled_tiles[{self.blocks}][{self.waves + 1}] = {{
  {{{table}}}}};
static __device__ __forceinline__ int scheduled_tile(int block, int wave) {{
  return __ldg(&scheduled_tiles[block][wave]);
}}
"""

    def of_block(self, block: Any, wave: Any) -> Any:
        """The tile that a block takes in a wave; not in range(total) if there is none."""
        if self.scheduled:
            return T.call_extern("int32", "scheduled_tile", block, wave)
        return wave * self.blocks + block

    def exists(self, index: Any) -> Any:
        return index >= 0 if self.scheduled else index < self.total
