"""It launches on a stream that is never waited for."""

import torch

from kernels.honest import compiled

TRICK = 8
RUNS_ON = ("cuda",)
VERDICT = "overlap clock wrong_result foreign_kernel runtime"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)
    streams = []

    def launch(a, b, out):
        if not streams:
            streams.append(torch.cuda.Stream())
        with torch.cuda.stream(streams[0]):
            kernel(a, b, out)

    return launch
