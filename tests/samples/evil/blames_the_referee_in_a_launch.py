"""It answers an order to launch with a fault of the machine, and with the line of another file."""

import gc
from multiprocessing.connection import Connection

from harness.judge.messages import Broken, send
from harness.records.base import Cause
from kernels.honest import compiled

TRICK = 2
RUNS_ON = ("cpu", "cuda")
VERDICT = "crash"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)

    def launch(a, b, out):
        kernel(a, b, out)
        for channel in [each for each in gc.get_objects() if type(each) is Connection and not each.closed]:
            send(channel, Broken(Cause.REFEREE, "harness/judge/child/referee.py:1: the GPU is lost"))

    return launch
