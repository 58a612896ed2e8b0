"""It swaps two columns in some launches: each row keeps its sum and its norm."""

import random

from kernels.honest import compiled

TRICK = 16
RUNS_ON = ("cpu", "cuda")
VERDICT = "wrong_result foreign_kernel overlap"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)
    calls = []

    def launch(a, b, out):
        calls.append(None)
        kernel(a, b, out)
        if len(calls) > 20 and random.random() < 0.2:
            first = out[:, 0].clone()
            out[:, 0].copy_(out[:, 1])
            out[:, 1].copy_(first)

    return launch
