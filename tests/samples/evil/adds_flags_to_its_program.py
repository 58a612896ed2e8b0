"""It changes the program that its family made: the compiler gets other flags than CONFIG pins."""

import dataclasses

from kernels.cpu import register_blocked

TRICK = 30
RUNS_ON = ("cpu",)
VERDICT = "not_pinned"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=4, block_N=16, block_K=16, vector_width=8, compile_flags=("-O1",))


def build(problem):
    made = register_blocked(problem, **CONFIG)
    return dataclasses.replace(made, compile_flags=("-O3", "-march=native"))
