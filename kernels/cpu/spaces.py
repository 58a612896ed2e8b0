"""What to search in each CPU family, under the family's name: a product, or a function of the problem."""

from typing import Any

from harness.judge.facts.problem import Problem

_OPTIMIZED = ("-O3", "-march=native")
_FAST_MATH = (*_OPTIMIZED, "-ffast-math")

plain_loops: dict[str, list[Any]] = {
    "loop_order": ["mnk", "mkn", "nmk", "nkm", "kmn", "knm"],
    "compile_flags": [_OPTIMIZED, _FAST_MATH],
}

scalar_gemm: dict[str, list[Any]] = {
    "block_M": [16, 32, 64],
    "block_N": [32, 64, 128],
    "block_K": [32, 64],
    "compile_flags": [_OPTIMIZED, _FAST_MATH],
}


def register_blocked(problem: Problem) -> list[dict[str, Any]]:
    """Tiles that fit the vector registers of AVX2 or AVX-512, over panels that divide N and K of the problem."""
    _, columns, depth = problem.dims
    return [
        {
            "block_M": rows,
            "block_N": vectors * lanes,
            "block_K": panel,
            "vector_width": lanes,
            "pack_B": packed,
            "compile_flags": _OPTIMIZED,
        }
        for lanes in (16, 8)
        for vectors in (1, 2, 4)
        for rows in (4, 6, 8, 12)
        for panel in dict.fromkeys((min(depth, 128), min(depth, 256), min(depth, 512)))
        for packed in ((True,) if problem.operator == "linear" else (True, False))
        if (rows + 1) * vectors <= 32 and columns % (vectors * lanes) == 0 and depth % panel == 0
    ]
