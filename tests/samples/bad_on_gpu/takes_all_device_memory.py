"""It takes device memory until there is none."""

import torch

VERDICT = "out_of_memory"
PARENT = "iter000_torch_matmul"
CONFIG = dict(gib=1)


def build(problem):
    held = []

    def launch(a, b, out):
        while True:
            held.append(torch.empty(CONFIG["gib"] << 30, dtype=torch.uint8, device="cuda"))

    return launch
