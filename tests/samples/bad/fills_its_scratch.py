"""It writes one file after another into its folder."""

import torch

PARENT = "iter000_torch_matmul"
CONFIG = dict(files=1000000)


def build(problem):
    for number in range(CONFIG["files"]):
        torch.save(number, f"{number}.pt")
