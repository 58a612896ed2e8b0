"""It exits with code 0 after it has been timed for a while."""

import os

from kernels.honest import compiled

TRICK = 2
RUNS_ON = ("cpu", "cuda")
VERDICT = "crash"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)
    calls = []

    def launch(a, b, out):
        calls.append(None)
        if len(calls) > 40:
            os._exit(0)
        kernel(a, b, out)

    return launch
