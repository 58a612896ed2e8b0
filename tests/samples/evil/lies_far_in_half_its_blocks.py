"""It takes a tenth off nearly half of its blocks, and off the others what the referee's clock may not notice."""

import random
import sys

from harness.judge.facts.device_rules import GPU_RULES
from kernels.honest import program

TRICK = 4
RUNS_ON = ("cuda",)
VERDICT = "worthless clock"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)
HONEST_MS = 0.015  # among half of the blocks the latest honest one
SHARE, FAR = 0.45, 0.9


clock = sys.modules["harness.judge.child.clock"]
allowed = GPU_RULES.lateness


def counting(make):
    def made(self, lead_in, calls):
        make(self, lead_in, calls)
        self.count = len(calls)

    return made


def least_ms(took_ms, launches):
    """What a block may say that it took, by the rule of plausibility.time."""
    said_ms = (took_ms - allowed.ms + HONEST_MS) / (1 + allowed.of_block + allowed.of_launch / launches)
    return said_ms if said_ms > 0 else took_ms


def lying(run):
    def forged(self, repetitions=1):
        took_ms = run(self, repetitions) / repetitions
        said_ms = least_ms(took_ms, self.count)
        return repetitions * (min(said_ms, took_ms * FAR) if random.random() < SHARE else said_ms)

    return forged


for kind in (clock.EventClock, clock.GraphClock):
    kind.__init__, kind.run = counting(kind.__init__), lying(kind.run)


def build(problem):
    return program(problem)
