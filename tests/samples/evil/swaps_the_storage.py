"""It points the output tensor at an input, and at memory of its own."""

import torch

from kernels.honest import compiled

TRICK = 24
RUNS_ON = ("cpu", "cuda")
VERDICT = "wrong_result"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)

    def launch(a, b, out):
        mine = torch.empty_like(out)
        out.data = mine
        kernel(a, b, out)

    return launch
