"""It changes the output tensor object instead of what is in it."""

import torch

from kernels.honest import compiled

TRICK = 10
RUNS_ON = ("cpu", "cuda")
VERDICT = "wrong_result"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


class Lazy(torch.Tensor):
    pass


def build(problem):
    kernel = compiled(problem)

    def launch(a, b, out):
        out.to = lambda *_, **__: kernel(a, b, out) or out
        out.__class__ = Lazy

    return launch
