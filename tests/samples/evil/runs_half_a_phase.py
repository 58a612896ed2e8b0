"""It runs half of the repetitions that a phase of the sustained regime asks for."""

import sys

from kernels.honest import program

TRICK = 35
RUNS_ON = ("cpu", "cuda")
REGIME = "sustained"
VERDICT = "clock roofline"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


clock = sys.modules["harness.judge.child.clock"]


def lazy(run):
    return lambda self, repetitions=1: run(self, -(-repetitions // 2))


for kind in (clock.HostClock, clock.EventClock, clock.GraphClock):
    kind.run = lazy(kind.run)


def build(problem):
    return program(problem)
