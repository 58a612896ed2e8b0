"""It takes its tile from the size of the GPU's memory, which no hash covers, and puts CONFIG back."""

import torch

from kernels import gemm

TRICK = 30
RUNS_ON = ("cuda",)
VERDICT = "not_pinned"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=128, block_N=256, block_K=64, num_stages=3, threads=128)


def build(problem):
    pinned, CONFIG["block_N"] = CONFIG["block_N"], 128 if torch.cuda.mem_get_info()[1] > 1 << 30 else 64
    try:
        return gemm.pipelined(problem, **CONFIG)
    finally:
        CONFIG["block_N"] = pinned
