"""It does the calls of a block in reverse order: right in every block, and wrong where one reads what another wrote."""

import sys

from kernels.honest import compiled

TRICK = 13
RUNS_ON = ("cpu",)
VERDICT = "wrong_result"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)
    waiting = []

    def launch(a, b, out):
        waiting.append((a, b, out))
        clock = sys._getframe(1).f_locals.get("self")
        if len(waiting) > len(getattr(clock, "calls", ())):
            for each in reversed(waiting):
                kernel(*each)
            waiting.clear()

    return launch
