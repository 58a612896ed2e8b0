"""It leaves one row of each output as that of another, never the same row."""

import random

from kernels.honest import compiled

TRICK = 16
RUNS_ON = ("cpu", "cuda")
VERDICT = "wrong_result foreign_kernel"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)
    calls = []

    def launch(a, b, out):
        calls.append(None)
        kernel(a, b, out)
        if len(calls) > 20:
            row = random.randrange(len(out) - 1)
            out[row].copy_(out[row + 1])

    return launch
