"""It is slow at first, so that it is timed in few, short and cool blocks."""

import time

from kernels.honest import compiled

TRICK = 17
RUNS_ON = ("cpu", "cuda")
VERDICT = "worthless clock"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)
    calls = []

    def launch(a, b, out):
        calls.append(None)
        if len(calls) < 60:
            time.sleep(0.01)
        kernel(a, b, out)

    return launch
