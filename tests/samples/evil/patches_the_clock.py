"""It replaces every clock that it can find, when it is loaded."""

import sys
import time

import torch

from kernels.honest import program

TRICK = 4
RUNS_ON = ("cpu", "cuda")
VERDICT = "clock roofline"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


now = time.perf_counter
elapsed = torch.cuda.Event.elapsed_time
torch.cuda.Event.elapsed_time = lambda self, end: elapsed(self, end) * 0.5
time.perf_counter = lambda: now() * 0.5
clock = sys.modules["harness.judge.child.clock"]
clock._elapsed_ms = torch.cuda.Event.elapsed_time
clock._now = time.perf_counter


def build(problem):
    return program(problem)
