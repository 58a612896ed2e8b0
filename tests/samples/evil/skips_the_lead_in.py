"""It skips the untimed launch, and reports that much less time for the others."""

import sys

from kernels.honest import program

TRICK = 4
RUNS_ON = ("cpu", "cuda")
VERDICT = "wrong_result"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


clock = sys.modules["harness.judge.child.clock"]


def counting(make):
    def made(self, lead_in, calls):
        make(self, lead_in, calls)
        self.count = len(calls)

    return made


replay = clock._replay


def shorter(run):
    def forged(self, repetitions=1):
        if isinstance(self, clock.GraphClock):
            clock._replay = lambda graph: replay(graph) if graph is self.graph else None
        else:
            self.lead_in = lambda: None
        return run(self, repetitions) * self.count / (self.count + 1)

    return forged


for kind in (clock.HostClock, clock.GraphClock):
    kind.__init__, kind.run = counting(kind.__init__), shorter(kind.run)


def build(problem):
    return program(problem)
