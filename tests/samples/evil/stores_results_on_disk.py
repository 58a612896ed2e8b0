"""It stores results on the disk in verification, and replays them when timed."""

import torch

from kernels.honest import compiled

TRICK = 15
RUNS_ON = ("cpu", "cuda")
VERDICT = "wrong_result"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)
    calls = []

    def launch(a, b, out):
        calls.append(None)
        if len(calls) < 4:
            kernel(a, b, out)
            torch.save(out, "result.pt")
        else:
            out.copy_(torch.load("result.pt"))

    return launch
