"""The last eighth of the calls of a block are answered with the result of the first."""

import sys

from kernels.honest import compiled

TRICK = 16
RUNS_ON = ("cpu",)
VERDICT = "wrong_result"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)
    done = []

    def launch(a, b, out):
        calls = getattr(sys._getframe(1).f_locals.get("self"), "calls", ())
        if len(done) > len(calls) * 7 / 8 > 3:
            out.copy_(done[0])
        else:
            kernel(a, b, out)
        done.append(out)
        if len(done) > len(calls):
            done.clear()

    return launch
