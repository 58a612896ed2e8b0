"""It sends its parent the verdicts that only a referee gives."""

import gc
from multiprocessing.connection import Connection

from harness.judge.messages import Paced, Verified, send
from kernels.honest import compiled

TRICK = 2
RUNS_ON = ("cpu", "cuda")
VERDICT = "crash"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)
    for channel in [each for each in gc.get_objects() if type(each) is Connection and not each.closed]:
        send(channel, Verified(()))
        send(channel, Paced(1, 1))
    return kernel
