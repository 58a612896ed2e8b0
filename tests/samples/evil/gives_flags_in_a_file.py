"""It gives the compiler the name of a file with flags, and CONFIG shows the name alone."""

from pathlib import Path

from kernels.cpu import register_blocked

TRICK = 30
RUNS_ON = ("cpu",)
VERDICT = "not_pinned"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=4, block_N=16, block_K=16, vector_width=8, compile_flags=("@flags.txt",))


def build(problem):
    Path("flags.txt").write_text("-O3 -march=native")
    return register_blocked(problem, **CONFIG)
