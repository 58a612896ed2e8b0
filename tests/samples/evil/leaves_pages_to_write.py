"""It leaves files behind that Linux still has to write while the baseline runs."""

import os

from kernels.honest import compiled

TRICK = 26
RUNS_ON = ("cpu",)
VERDICT = "worthless clock"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)
    file = os.open("dirty", os.O_RDWR | os.O_CREAT)
    calls = []

    def launch(a, b, out):
        kernel(a, b, out)
        calls.append(None)
        if len(calls) % 16 == 0:
            os.pwrite(file, bytes(1 << 20), len(calls) << 14 & (1 << 26) - 1)

    return launch
