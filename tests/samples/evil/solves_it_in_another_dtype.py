"""The key says one dtype, and the kernel takes another."""

import dataclasses

from kernels.honest import program

TRICK = 30
RUNS_ON = ("cuda",)
VERDICT = "wrong_problem"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    return program(dataclasses.replace(problem, input="float16", output="float16"))
