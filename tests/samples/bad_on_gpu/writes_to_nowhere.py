"""Its launch writes to an unmapped address."""

import torch

VERDICT = "runtime crash"
PARENT = "iter000_torch_matmul"
CONFIG = dict(address=16)


def build(problem):
    source = 'extern "C" __global__ void wild(long address) { *(volatile int *)address = 1; }'

    def launch(a, b, out):
        wild = torch.cuda._compile_kernel(source, "wild")
        wild((1, 1, 1), (1, 1, 1), (CONFIG["address"],))

    return launch
