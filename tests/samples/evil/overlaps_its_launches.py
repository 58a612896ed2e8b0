"""In a block each launch waits for the launch before the last alone; the caller waits for all of them."""

import sys

import torch

from kernels.honest import compiled

TRICK = 8
RUNS_ON = ("cuda",)
VERDICT = "overlap wrong_result"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


clock = sys.modules["harness.judge.child.clock"]


def of_a_block(frame):
    while frame is not None and not isinstance(frame.f_locals.get("self"), clock.GraphClock):
        frame = frame.f_back
    return frame is not None


def build(problem):
    kernel = compiled(problem)
    streams, begun = [], []

    def launch(a, b, out):
        if not streams:
            streams.extend((torch.cuda.Stream(), torch.cuda.Stream()))
        caller = torch.cuda.current_stream()
        if not (of_a_block(sys._getframe(1)) and torch.cuda.is_current_stream_capturing()):
            begun.clear()
            kernel(a, b, out)
            return
        own = streams[len(begun) % 2]
        begun.append(caller.record_event())
        own.wait_event(begun[-2:][0])
        with torch.cuda.stream(own):
            kernel(a, b, out)
        caller.wait_stream(own)

    return launch
