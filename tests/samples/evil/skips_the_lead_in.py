"""It skips the untimed launch, and reports that much less time for the others."""

import sys

from kernels.honest import program

TRICK = 4
RUNS_ON = ("cpu", "cuda")
VERDICT = "wrong_result"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


clock = sys.modules["harness.judge.child.clock"]


def shorter(run):
    def forged(self, repetitions=1):
        self.lead_in = lambda: None
        return run(self, repetitions) * len(self.calls) / (len(self.calls) + 1)

    return forged


for kind in (clock.HostClock, clock.EventClock):
    kind.run = shorter(kind.run)


def build(problem):
    return program(problem)
