"""Two streams of its own take turns, both joined: a launch waits for the one before the last, but as a chain does."""

import torch
from cuda.bindings import runtime

from kernels.honest import compiled

TRICK = 8
RUNS_ON = ("cuda",)
VERDICT = "overlap wrong_result"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)
    streams, events, before = [], [], []

    def launch(a, b, out):
        if not streams:
            streams.extend((torch.cuda.Stream(), torch.cuda.Stream()))
            events.extend((torch.cuda.Event(), torch.cuda.Event()))
        caller, (fork, done) = torch.cuda.current_stream(), events
        _, _, capture, *_ = runtime.cudaStreamGetCaptureInfo(caller.cuda_stream)
        touched = {each.data_ptr() for each in (a, b, out)}
        if before[:1] != [capture] or touched & before[1]:  # the first of a graph, or one of a chain
            fork.record(caller)
        streams.reverse()
        streams[0].wait_event(fork)
        with torch.cuda.stream(streams[0]):
            kernel(a, b, out)
            done.record()
        fork.record(caller)  # the next launch starts from here, before this one is joined
        caller.wait_event(done)
        before[:] = capture, touched

    return launch
