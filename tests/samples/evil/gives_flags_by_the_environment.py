"""It gives the compiler flags by a variable of the environment, which CONFIG does not show."""

import torch

from kernels.honest import program

TRICK = 30
VERDICT = "not_pinned"
PARENT = "iter000_torch_matmul"
CONFIG = {}


def build(problem):
    torch.os.environ["NVCC_APPEND_FLAGS"] = "--use_fast_math"
    torch.os.environ["CXX"] = "g++"
    return program(problem)
