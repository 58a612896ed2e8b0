"""It computes in a smaller dtype than what was asked for."""

import torch

from kernels.honest import compiled

TRICK = 23
RUNS_ON = ("cpu", "cuda")
VERDICT = "wrong_result"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)
    smaller = torch.bfloat16 if problem.input == "float32" else torch.float8_e4m3fn

    def launch(a, b, out):
        kernel(a.to(smaller).to(a.dtype), b.to(smaller).to(b.dtype), out)

    return launch
