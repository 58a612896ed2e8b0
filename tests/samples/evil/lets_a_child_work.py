"""A process that it forked does the work, and no clock of its own counts it."""

import os

from kernels.honest import compiled

TRICK = 9
RUNS_ON = ("cpu",)
VERDICT = "wrong_result runtime timeout"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)
    pipes = []

    def launch(a, b, out):
        if not pipes:
            pipes.append((os.pipe(), os.pipe(), a, b, out))
            if os.fork() == 0:
                os.sched_setaffinity(0, range(os.cpu_count()))
                while os.read(pipes[0][0][0], 1):
                    kernel(a, b, out)
                    os.write(pipes[0][1][1], b"x")
        (_, order), (answer, _), *_ = pipes[0]
        os.write(order, b"x")
        os.read(answer, 1)

    return launch
