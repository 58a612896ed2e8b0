"""It binds a lever before it calls its family, and changes CONFIG while it is loaded."""

from functools import partial

from kernels.cpu import register_blocked

TRICK = 30
RUNS_ON = ("cpu",)
VERDICT = "not_pinned"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=8, block_N=16, block_K=16, vector_width=8, compile_flags=("-O2",))

family = partial(register_blocked, block_M=4)
CONFIG.pop("block_M")


def build(problem):
    return family(problem, **CONFIG)
