"""In its last call it writes over the inputs of all calls, which the baseline gets next."""

import sys

from kernels.honest import compiled

TRICK = 26
RUNS_ON = ("cpu",)
VERDICT = "wrong_result input_changed worthless"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)
    done = []

    def launch(a, b, out):
        kernel(a, b, out)
        done.append((a, b))
        if len(done) > len(getattr(sys._getframe(1).f_locals.get("self"), "calls", ())):
            for each in done:
                each[0].fill_(1e-42)  # numbers that a product is slow with
                each[1].fill_(1e-42)
            done.clear()

    return launch
