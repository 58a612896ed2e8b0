"""It lets another compiler call the library."""

import torch

TRICK = 25
RUNS_ON = ("cuda",)
VERDICT = "foreign_kernel runtime"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    made = torch.compile(lambda a, b: a @ b)

    def launch(a, b, out):
        out.copy_(made(a, b))

    return launch
