"""Its launch is enqueued, and never ends on the device."""

import torch

VERDICT = "timeout"
PARENT = "iter000_torch_matmul"
CONFIG = dict(threads=32)


def build(problem):
    source = 'extern "C" __global__ void forever(volatile int *flag) { while (*flag != 12345) { } }'

    def launch(a, b, out):
        flag = torch.zeros(1, dtype=torch.int32, device="cuda")
        torch.cuda._compile_kernel(source, "forever")((1, 1, 1), (CONFIG["threads"], 1, 1), (flag,))

    return launch
