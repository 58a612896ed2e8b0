"""What to search in each GEMM family, under the family's name: a product, or a function of the problem."""

from typing import Any

from harness.judge.facts.problem import DTYPE_BYTES, Problem
from kernels.hopper import NUM_SMS
from kernels.operands import ceildiv

pipelined: dict[str, list[Any]] = {
    "block_M": [64, 128, 256],
    "block_N": [64, 128, 256],
    "block_K": [32, 64],
    "num_stages": [3, 4],
    "threads": [128, 256],
    "panel": [8],
    "epilogue": ["direct", "tma"],
}


def warp_specialized(problem: Problem) -> list[dict[str, Any]]:
    """Tiles wide for many waves and narrow for few, deep rings, with and without clusters; about a hundred.

    Small problems get one tile a block, large ones the persistent grid too; what led the ladders of either, also with a
    dependent launch. A skinny A that a cluster multicasts is read with a stagger, and sums of many 8-bit products are
    promoted. What does not fit in shared memory or registers, the family refuses.
    """
    rows, columns, depth = problem.dims
    promoted = DTYPE_BYTES[problem.input] == 1 and depth > 1024
    unit = 64 * 2 // DTYPE_BYTES[problem.input]  # 128 bytes of K: one swizzled row
    small = ceildiv(rows, 128) * ceildiv(columns, 128) <= NUM_SMS
    tiles = (
        [(64, 64, 1), (64, 128, 1), (128, 64, 2), (128, 128, 2), (128, 256, 2)]
        if small
        else [(128, 128, 2), (128, 192, 2), (128, 256, 2), (256, 128, 2), (192, 128, 3), (64, 256, 1)]
    )
    return [
        {
            "block_M": block_M,
            "block_N": block_N,
            "block_K": block_K,
            "num_stages": num_stages,
            "consumer_groups": groups,
            "cluster_M": cluster_M,
            "cluster_N": cluster_N,
            "group_M": 16 if persistent else 8,
            "persistent": persistent,
            "wgmma_in_flight": in_flight,
            "stagger": 2 if rows <= block_M and cluster_N == 2 else 0,
            "dependent_launch": dependent,
            "promote_steps": 4 if promoted else 0,
        }
        for block_M, block_N, groups in tiles
        for block_K, num_stages in ((unit, 4), (unit, 6), (unit, 8), (2 * unit, 3), (2 * unit, 6))
        for cluster_M, cluster_N in ((1, 1), (2, 1), (1, 2))
        for persistent in ((False,) if small else (True, False))
        for in_flight, dependent in ((1, False), (0, False), (1 if small else 0, True))
        if small or persistent or not dependent
    ]


def block_scaled(problem: Problem) -> list[dict[str, Any]]:
    """Square tiles in chains, and tiles that load less per flop but have no room for one."""
    steps = ceildiv(problem.dims[2], 128)
    return [
        {
            "block_M": block_M,
            "block_N": block_N,
            "num_stages": num_stages,
            "consumer_groups": groups,
            "chain": chain,
            "cluster_M": cluster_M,
            "group_M": group_M,
            "epilogue_N": 32 if block_M == 256 else 64,
            "epilogue_buffers": buffers,
        }
        for block_M, block_N, groups, chains in (
            (128, 128, 2, (1, 2, 4, 8)),
            (128, 192, 2, (1,)),
            (192, 128, 3, (1,)),
            (256, 128, 2, (1,)),
        )
        for chain in chains
        if steps % chain == 0
        for num_stages in (4, 5, 6)
        for cluster_M in (1, 2)
        for group_M in (8, 16)
        for buffers in (1, 2)
    ]


def stream_k(problem: Problem) -> list[dict[str, Any]]:
    """The tiles of the persistent grid, where the last wave is partial and K is cut instead."""
    unit = 64 * 2 // DTYPE_BYTES[problem.input]
    return [
        {
            "block_M": block_M,
            "block_N": block_N,
            "block_K": unit,
            "num_stages": num_stages,
            "consumer_groups": 2,
            "cluster_M": cluster_M,
            "group_M": group_M,
        }
        for block_M, block_N in ((128, 128), (128, 192), (128, 256), (256, 128))
        for num_stages in (3, 4, 5, 6)
        for cluster_M in (1, 2)
        for group_M in (8, 16)
    ]


def ping_pong(problem: Problem) -> list[dict[str, Any]]:
    """The widest tiles that one consumer group can hold, with and without clusters."""
    unit = 64 * 2 // DTYPE_BYTES[problem.input]
    return [
        {
            "block_M": 128,
            "block_N": block_N,
            "block_K": unit,
            "num_stages": num_stages,
            "cluster_M": cluster_M,
            "cluster_N": cluster_N,
            "group_M": group_M,
            "wgmma_in_flight": in_flight,
            "epilogue_buffers": buffers,
        }
        for block_N in (128, 192)
        for num_stages in (3, 4, 5)
        for cluster_M, cluster_N in ((1, 1), (2, 1), (1, 2))
        for group_M in (8, 16)
        for in_flight in (1, 0)
        for buffers in (1, 2)
    ]


def stationary(problem: Problem) -> list[dict[str, Any]]:
    """What fits beside the rows of A, with blocks in step and in echelon."""
    unit = 64 * 2 // DTYPE_BYTES[problem.input]
    return [
        {
            "block_M": 128,
            "block_N": block_N,
            "block_K": unit,
            "num_stages": num_stages,
            "lag": lag,
            "wgmma_in_flight": in_flight,
            "epilogue_N": epilogue_N,
        }
        for block_N in (128, 192)
        for num_stages in (3, 4, 5)
        for lag in (0, 1, 3)
        for in_flight in (1, 0)
        for epilogue_N in (32, 64)
    ]


def split_k(problem: Problem) -> list[dict[str, Any]]:
    """Two blocks a tile, where whole tiles are too few or load too much; as many stages as fit beside the sums."""
    unit = 64 * 2 // DTYPE_BYTES[problem.input]
    return [
        {
            "block_M": block_M,
            "block_N": block_N,
            "block_K": block_K,
            "num_stages": num_stages,
            "consumer_groups": groups,
            "split": 2,
            "wgmma_in_flight": in_flight,
        }
        for block_M, block_N, groups in ((64, 128, 1), (128, 128, 1), (128, 128, 2), (64, 256, 1))
        for block_K, num_stages in ((unit, 3), (unit, 4), (unit, 6), (unit, 7), (2 * unit, 2), (2 * unit, 3))
        for in_flight in (1, 0)
    ]
