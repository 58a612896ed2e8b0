"""It changes the mode of its own source, which neither Landlock nor a hash sees."""

import os

from kernels.honest import program

TRICK = 3
RUNS_ON = ("cpu", "cuda")
VERDICT = "compile worthless"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    os.chmod(__file__, 0o777)
    return program(problem)
