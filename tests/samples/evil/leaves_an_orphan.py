"""It leaves an orphan that outlives it, and would write into the arena and spin for ever."""

import os
import signal

from kernels.honest import compiled

TRICK = 29
RUNS_ON = ("cpu",)
VERDICT = "crash"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)

    def launch(a, b, out):
        kernel(a, b, out)
        if os.fork() == 0:
            for number in range(1, signal.NSIG):
                try:
                    signal.signal(number, signal.SIG_IGN)
                except (OSError, ValueError):
                    continue
            while True:
                a.zero_()
        os._exit(1)

    return launch
