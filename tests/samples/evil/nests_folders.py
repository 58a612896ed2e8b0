"""It nests 3,000 folders in its scratch, too deep for a recursion."""

import os

from kernels.honest import program

TRICK = 29
RUNS_ON = ("cpu", "cuda")
VERDICT = "worthless"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    start = os.getcwd()
    for _ in range(3000):
        os.mkdir("d")
        os.chdir("d")
    os.chdir(start)
    return program(problem)
