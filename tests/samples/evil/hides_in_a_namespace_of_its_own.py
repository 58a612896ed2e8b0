"""It leaves an orphan in a namespace within its own, where no count sees it."""

import ctypes
import os
import signal

from kernels.honest import program

TRICK = 29
RUNS_ON = ("cpu", "cuda")
VERDICT = "worthless"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)

NEW_USER, NEW_PID = 0x10000000, 0x20000000


def build(problem):
    if os.fork() == 0:
        ctypes.CDLL(None).unshare(NEW_USER | NEW_PID)
        if os.fork() == 0:
            signal.pause()
        os._exit(0)
    return program(problem)
