"""It says that a block took next to nothing, so that a mean over problems becomes 0."""

import sys

from kernels.honest import program

TRICK = 7
RUNS_ON = ("cpu", "cuda")
VERDICT = "clock roofline wrong_result"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


clock = sys.modules["harness.judge.child.clock"]
clock.HostClock.run = lambda self, repetitions=1: [call() for call in self.calls] and 1e-9
clock.GraphClock.run = lambda self, repetitions=1: self.graph.replay() or 1e-9


def build(problem):
    return program(problem)
