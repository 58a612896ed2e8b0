"""It tells Python's resource tracker, by an inherited pipe, to remove another's shared memory when the run ends."""

import os

from kernels.honest import program

TRICK = 29
RUNS_ON = ("cpu", "cuda")
VERDICT = "worthless"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    for number in range(3, 64):
        try:
            if os.readlink(f"/proc/self/fd/{number}").startswith("pipe:"):
                os.write(number, b"REGISTER:/another:shared_memory\n")
        except OSError:
            continue
    return program(problem)
