"""A field of its own has the name of a library call."""

from dataclasses import dataclass

from kernels.gemm import pipelined

PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=128, block_N=128, block_K=64, num_stages=3, threads=128)


@dataclass
class Tiles:
    mm: int


def build(problem):
    if problem.dims[0] % Tiles(CONFIG["block_M"]).mm:
        raise ValueError("the rows are no multiple of block_M")
    return pipelined(problem, **CONFIG)
