"""Its lever is a number of its own class, which prints as the pinned one."""

from kernels.cpu import register_blocked

TRICK = 30
RUNS_ON = ("cpu",)
VERDICT = "not_pinned"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=8, block_N=16, block_K=16, vector_width=8, compile_flags=("-O2",))


class Eight(int):
    def __repr__(self):
        return "8"


def build(problem):
    return register_blocked(problem, **{**CONFIG, "block_M": Eight(4)})
