"""One call in twenty, drawn at random after the first hundred, is answered with zeros."""

import random

from kernels.honest import compiled

TRICK = 16
RUNS_ON = ("cpu", "cuda")
VERDICT = "wrong_result overlap"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)
    calls = []

    def launch(a, b, out):
        calls.append(None)
        if len(calls) > 100 and random.random() < 0.05:
            out.zero_()
        else:
            kernel(a, b, out)

    return launch
