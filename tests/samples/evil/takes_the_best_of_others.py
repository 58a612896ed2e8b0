"""It calls the product for users. The levers come from other rows, and its CONFIG says none of them."""

from kernels import matmul

TRICK = 30
RUNS_ON = ("cpu", "cuda")
VERDICT = "not_pinned timeout"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    def launch(a, b, out):
        matmul(a, b, out=out)

    return launch
