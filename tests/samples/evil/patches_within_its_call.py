"""It replaces the clocks for the time of its own call, and puts them back."""

import time

import torch

from kernels.honest import compiled

TRICK = 5
RUNS_ON = ("cpu", "cuda")
VERDICT = "worthless clock"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)

    def launch(a, b, out):
        kept = time.perf_counter, torch.cuda.Event.record, torch.cuda.synchronize
        time.perf_counter = lambda: 0.0
        torch.cuda.Event.record = torch.cuda.synchronize = lambda *_: None
        kernel(a, b, out)
        time.perf_counter, torch.cuda.Event.record, torch.cuda.synchronize = kept

    return launch
