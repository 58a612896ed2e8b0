"""It runs fewer repetitions than a phase of the sustained regime asks for, within what the paired ratio may differ."""

import math
import sys

from kernels.honest import program

TRICK = 35
RUNS_ON = ("cpu", "cuda")
REGIME = "sustained"
VERDICT = "bounded worthless clock"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)
GAIN = 1.05


clock = sys.modules["harness.judge.child.clock"]


def lazy(run):
    return lambda self, repetitions=1: run(self, math.ceil(repetitions / GAIN))


for kind in (clock.HostClock, clock.EventClock, clock.GraphClock):
    kind.run = lazy(kind.run)


def build(problem):
    return program(problem)
