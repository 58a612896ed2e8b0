"""What ``kernels.cpu.scalar_gemm`` takes, its search space and its steps in a starter ladder."""

from typing import Final

from harness.catalog.families import Draft, Family, Gpu

NAME: Final = "kernels.cpu.scalar_gemm"
_OPTIMIZED: Final = ("-O3", "-march=native")
_TILE: Final[dict[str, object]] = {"block_M": 64, "block_N": 64, "block_K": 32}


def starter(gpu: Gpu) -> dict[str, tuple[Draft, ...]]:
    steps = (
        Draft(
            "scalar_gemm",
            "The plain kernel, T.gemm on local tiles and no compile flags: one multiplication at a time, unoptimized.",
            NAME,
            _TILE,
        ),
        Draft(
            "optimizing_compiler",
            "The scalar T.gemm with -O3 -march=native: registers instead of memory, and vectors where sums allow them.",
            NAME,
            _TILE | {"compile_flags": _OPTIMIZED},
        ),
    )
    return dict.fromkeys(("matmul_f32fp32_256x256x256", "linear_f32fp32_128x256x512"), steps)


FAMILY: Final = Family(
    name=NAME,
    operators={"matmul": ("f32",), "linear": ("f32",)},
    architectures=("c",),
    space={
        "block_M": [16, 32, 64],
        "block_N": [32, 64, 128],
        "block_K": [32, 64],
        "compile_flags": [_OPTIMIZED, (*_OPTIMIZED, "-ffast-math")],
    },
    starter=starter,
)
