"""It forks as fast as it can, and its children do too."""

import os

from kernels.honest import compiled

TRICK = 29
RUNS_ON = ("cpu", "cuda")
VERDICT = "clock worthless wrong_result crash"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)
    calls = []

    def launch(a, b, out):
        calls.append(None)
        if len(calls) == 20:
            for _ in range(100):
                try:
                    os.fork()
                except OSError:
                    break
        kernel(a, b, out)

    return launch
