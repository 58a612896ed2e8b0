"""Children of its own keep the core busy while the baseline runs."""

import os

from kernels.honest import program

TRICK = 26
RUNS_ON = ("cpu",)
VERDICT = "worthless"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    for _ in range(3):
        if os.fork() == 0:
            try:
                os.setsid()
            except OSError:
                pass
            for name in os.listdir("/proc/self/fd"):
                try:
                    os.close(int(name))
                except OSError:
                    pass
            while True:
                pass
    return program(problem)
