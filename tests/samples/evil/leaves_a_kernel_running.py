"""Its last launch leaves a kernel behind that runs through the other side's block."""

import sys

import torch

from kernels.honest import compiled

TRICK = 26
RUNS_ON = ("cuda",)
VERDICT = "worthless sabotage clock wrong_result foreign_kernel"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


synchronize = torch.cuda.synchronize


def build(problem):
    clock = sys.modules["harness.judge.child.clock"]
    kernel = compiled(problem)
    streams = []

    def no_wait():
        with torch.cuda.stream(streams[0]):
            torch.cuda._sleep(20_000_000)  # ten milliseconds

    def launch(a, b, out):
        if not streams:
            streams.append(torch.cuda.Stream())
        clock._synchronize = no_wait
        kernel(a, b, out)

    return launch
