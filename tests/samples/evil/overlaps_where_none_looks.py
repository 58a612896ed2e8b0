"""It is honest in a graph and in a chain; elsewhere two streams take turns, and the last launch stays unjoined."""

import torch

from kernels.honest import compiled

TRICK = 8
RUNS_ON = ("cuda",)
VERDICT = "worthless overlap wrong_result"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)
    lanes, before = [], set()

    def launch(a, b, out):
        touched = {each.data_ptr() for each in (a, b, out)}
        if torch.cuda.is_current_stream_capturing() or not lanes or touched & before:  # a graph, or a chain
            lanes[:] = lanes or [(torch.cuda.Stream(), torch.cuda.Event()) for _ in range(2)]
            for _, done in lanes:
                if not torch.cuda.is_current_stream_capturing():
                    torch.cuda.current_stream().wait_event(done)
            kernel(a, b, out)
        else:
            lanes.reverse()
            own, done = lanes[0]
            torch.cuda.current_stream().wait_event(done)  # the launch before the last
            done.record()
            own.wait_event(done)
            with torch.cuda.stream(own):
                kernel(a, b, out)
                done.record()
        before.clear()
        before.update(touched)

    return launch
