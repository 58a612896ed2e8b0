"""It runs half of a phase's repetitions and rests nearly as long as the others take, so the chip draws less power."""

import sys
import time

from kernels.honest import program

TRICK = 35
RUNS_ON = ("cpu", "cuda")
REGIME = "sustained"
VERDICT = "bounded worthless clock"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)
GAIN = 1.04


clock = sys.modules["harness.judge.child.clock"]
sleep = time.sleep


def resting(run):
    def forged(self, repetitions=1):
        work = -(-repetitions // 2)
        took_ms = run(self, work)
        whole_ms = max(took_ms, took_ms / work * repetitions / GAIN) if repetitions > 1 else took_ms
        sleep((whole_ms - took_ms) / 1e3)
        return whole_ms

    return forged


for kind in (clock.HostClock, clock.EventClock, clock.GraphClock):
    kind.run = resting(kind.run)


def build(problem):
    return program(problem)
