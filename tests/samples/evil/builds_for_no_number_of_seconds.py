"""It tells its parent that it built for NaN seconds, so that its record cannot be read."""

import gc
import math
from multiprocessing.connection import Connection

from harness.judge.messages import Built, send

TRICK = 2
RUNS_ON = ("cpu", "cuda")
VERDICT = "crash"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    for channel in [each for each in gc.get_objects() if type(each) is Connection and not each.closed]:
        send(channel, Built(math.nan, None))
    raise SystemExit
