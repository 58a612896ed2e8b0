"""What ``kernels.cpu.register_blocked`` takes, its search space, its first draft and its steps in a starter ladder."""

from typing import Any, Final

from harness.catalog.families import Draft, Family, Gpu
from harness.iteration import Problem

NAME: Final = "kernels.cpu.register_blocked"
_OPTIMIZED: Final = ("-O3", "-march=native")


def space(problem: Problem, gpu: Gpu) -> list[dict[str, Any]]:
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


def starter(gpu: Gpu) -> dict[str, tuple[Draft, ...]]:
    steps = (
        Draft(
            "register_vectors",
            "A tile of C that stays in vector registers of eight lanes while all of K passes by.",
            NAME,
            {"block_M": 6, "block_N": 16, "block_K": 256, "vector_width": 8, "compile_flags": _OPTIMIZED},
        ),
        Draft(
            "sixteen_lanes",
            "Sixteen lanes instead of eight, two vectors a row: one FMA does twice the work on 512-bit registers.",
            NAME,
            {"block_M": 8, "block_N": 32, "block_K": 256, "vector_width": 16, "compile_flags": _OPTIMIZED},
        ),
    )
    return dict.fromkeys(("matmul_f32fp32_256x256x256", "linear_f32fp32_128x256x512"), steps)


def draft(problem: Problem, gpu: Gpu) -> Draft:
    """Register tiles; their block sizes must divide N and K."""
    _, columns, depth = problem.dims
    lanes = next(width for width in (16, 8, 4, 1) if columns % width == 0)
    config: dict[str, object] = {
        "block_M": 8,
        "block_N": 2 * lanes if columns % (2 * lanes) == 0 else lanes,
        "block_K": next(size for size in range(min(depth, 512), 0, -1) if depth % size == 0),
        "vector_width": lanes,
        "compile_flags": _OPTIMIZED,
    }
    return Draft("register_tiles", "A tile of C in vector registers while all of K passes by.", NAME, config)


def refuses(problem: Problem, gpu: Gpu) -> str | None:
    if problem.output != problem.input:
        return f"{problem.output} outputs on a CPU; use float32 throughout, as in f32fp32"
    return None


FAMILY: Final = Family(
    name=NAME,
    operators={"matmul": ("f32",), "linear": ("f32",)},
    architectures=("c",),
    space=space,
    follows="kernels.cpu.scalar_gemm",
    refuses=refuses,
    draft=draft,
    starter=starter,
)
