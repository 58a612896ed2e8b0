"""It says that its kernel takes the problem's tensors, and the kernel takes half of the rows."""

import dataclasses

from harness.judge.child import contestant
from kernels.honest import program

TRICK = 2
VERDICT = "wrong_result runtime wrong_problem"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)

Built = contestant.Built


def build(problem):
    M, N, K = problem.dims
    contestant.Built = lambda seconds, tensors, *rest: Built(seconds, problem.tensors, *rest)
    return program(dataclasses.replace(problem, dims=(M // 2, N, K)))
