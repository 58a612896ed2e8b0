"""It writes infinities and NaN, against which every comparison is false."""

import math

TRICK = 28
RUNS_ON = ("cpu", "cuda")
VERDICT = "wrong_result"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    def launch(a, b, out):
        out.fill_(math.inf)
        out[::2] = math.nan

    return launch
