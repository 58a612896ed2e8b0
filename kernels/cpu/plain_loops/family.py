"""What ``kernels.cpu.plain_loops`` takes, and its search space."""

from typing import Final

from harness.catalog.families import Family

_OPTIMIZED: Final = ("-O3", "-march=native")

FAMILY: Final = Family(
    name="kernels.cpu.plain_loops",
    operators={"matmul": ("f32",), "linear": ("f32",)},
    architectures=("c",),
    space={
        "loop_order": ["mnk", "mkn", "nmk", "nkm", "kmn", "knm"],
        "compile_flags": [_OPTIMIZED, (*_OPTIMIZED, "-ffast-math")],
    },
)
