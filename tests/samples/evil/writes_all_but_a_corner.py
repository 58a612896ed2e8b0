"""It writes all of the output but its last tile."""

import torch

from kernels.honest import compiled

TRICK = 24
RUNS_ON = ("cpu", "cuda")
VERDICT = "wrong_result"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)

    def launch(a, b, out):
        whole = torch.empty_like(out)
        kernel(a, b, whole)
        out[:-8].copy_(whole[:-8])
        out[-8:, :-8].copy_(whole[-8:, :-8])

    return launch
