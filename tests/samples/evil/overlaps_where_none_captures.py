"""Each launch waits for the launch before the last alone and stays unjoined, except where a graph is captured."""

import torch

from kernels.honest import compiled

TRICK = 8
RUNS_ON = ("cuda",)
VERDICT = "worthless wrong_result"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)
    streams, done = [], []

    def launch(a, b, out):
        if torch.cuda.is_current_stream_capturing():
            kernel(a, b, out)
            return
        if not streams:
            streams.extend((torch.cuda.Stream(), torch.cuda.Stream()))
        caller, own = torch.cuda.current_stream(), streams[len(done) % 2]
        own.wait_event(caller.record_event())
        with torch.cuda.stream(own):
            kernel(a, b, out)
        if done:
            caller.wait_event(done[-1])
        done.append(own.record_event())

    return launch
