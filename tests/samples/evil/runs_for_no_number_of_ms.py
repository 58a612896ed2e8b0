"""It says that each block took NaN ms, or none, or for ever."""

import itertools
import math
import sys

from kernels.honest import program

TRICK = 7
RUNS_ON = ("cpu", "cuda")
VERDICT = "clock"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)

clock = sys.modules["harness.judge.child.clock"]
said = itertools.cycle((1.0, math.nan, -1.0, math.inf, 0.0))


def forged(run):
    return lambda self, repetitions=1: run(self, repetitions) and next(said)


for kind in (clock.HostClock, clock.EventClock, clock.GraphClock):
    kind.run = forged(kind.run)


def build(problem):
    return program(problem)
