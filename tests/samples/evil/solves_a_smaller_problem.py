"""Its kernel computes half of the rows."""

import dataclasses

from kernels.honest import program

TRICK = 30
RUNS_ON = ("cpu", "cuda")
VERDICT = "wrong_problem"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    M, N, K = problem.dims
    return program(dataclasses.replace(problem, dims=(M // 2, N, K)))
