"""It collects the calls of a block and does them all in the last one."""

import sys

from kernels.honest import compiled

TRICK = 13
RUNS_ON = ("cpu", "cuda")
VERDICT = "worthless wrong_result foreign_kernel"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)
    waiting = []

    def launch(a, b, out):
        waiting.append((a, b, out))
        calls = getattr(sys._getframe(1).f_locals.get("self"), "calls", None)
        if calls is None or len(waiting) >= len(calls):
            for each in waiting:
                kernel(*each)
            waiting.clear()

    return launch
