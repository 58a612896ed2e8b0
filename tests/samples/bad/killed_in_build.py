"""It ends by a signal."""

import torch

PARENT = "iter000_torch_matmul"
CONFIG = dict(loops=3)


def build(problem):
    torch.os.kill(torch.os.getpid(), 11)
