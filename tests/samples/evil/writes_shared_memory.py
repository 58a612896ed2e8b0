"""It leaves a file in the shared memory of all processes, and reads what others left there."""

import os

from kernels.honest import program

TRICK = 15
RUNS_ON = ("cpu", "cuda")
VERDICT = "compile"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    with open("/dev/shm/tilebench-sample", "w") as file:
        file.write("it was here")
    os.unlink("/dev/shm/tilebench-sample")
    return program(problem)
