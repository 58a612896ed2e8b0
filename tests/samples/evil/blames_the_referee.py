"""It tells its parent that the referee broke, so as to be measured again for ever."""

import gc
from multiprocessing.connection import Connection

from harness.judge.messages import Broken, send
from harness.records.results import Cause

TRICK = 2
RUNS_ON = ("cpu", "cuda")
VERDICT = "crash"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    for channel in [each for each in gc.get_objects() if type(each) is Connection and not each.closed]:
        send(channel, Broken(Cause.REFEREE, "the machine"))
    raise SystemExit
