"""It answers before its last launches are done, after four fifths of the time by every clock."""

import sys
import time

from kernels.honest import program

TRICK = 9
RUNS_ON = ("cuda",)
VERDICT = "clock wrong_result sabotage"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


clock = sys.modules["harness.judge.child.clock"]


def early(run):
    def forged(self, repetitions=1):
        began_s = time.perf_counter()
        if not hasattr(self, "took_ms"):  # a placement's first block is not measured
            self.took_ms = run(self, repetitions)
            self.until_s = (time.perf_counter() - began_s) * 0.8
            return self.took_ms
        self.lead_in.replay()
        self.graph.replay()
        while time.perf_counter() - began_s < self.until_s:
            pass
        return self.took_ms * 0.8

    return forged


clock.GraphClock.run = early(clock.GraphClock.run)


def build(problem):
    return program(problem)
