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


def capture_of(frame):
    """The frame in which the block's clock captures calls; None outside of such a capture."""
    while frame is not None and frame.f_code is not clock._captured.__code__:
        frame = frame.f_back
    return frame if frame is not None and torch.cuda.is_current_stream_capturing() else None


def build(problem):
    kernel = compiled(problem)
    streams, begun, seen = [], [], []

    def launch(a, b, out):
        if not streams:
            streams.extend((torch.cuda.Stream(), torch.cuda.Stream()))
        caller = torch.cuda.current_stream()
        capture = capture_of(sys._getframe(1))
        if capture is None:
            kernel(a, b, out)
            return
        if seen != [capture]:  # an event of one capture is unknown in the next
            seen[:] = [capture]
            begun.clear()
        own = streams[len(begun) % 2]
        begun.append(caller.record_event())
        own.wait_event(begun[-2:][0])
        with torch.cuda.stream(own):
            kernel(a, b, out)
        caller.wait_stream(own)

    return launch
