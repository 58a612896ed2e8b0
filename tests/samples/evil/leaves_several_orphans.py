"""It leaves orphans of five kinds, each with its own way to be overlooked, and goes on as if nothing were."""

import ctypes
import os
import signal
import threading
import time

from kernels.honest import program

TRICK = 29
RUNS_ON = ("cpu", "cuda")
VERDICT = "worthless"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWUSER, PR_SET_CHILD_SUBREAPER = 0x10000000, 36


def spin():
    while True:
        pass


def fork(before=lambda: None, generations=1):
    if os.fork():
        return
    before()
    if generations > 1 and os.fork():
        os._exit(0)
    for number in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    spin()


def late():
    time.sleep(0.3)
    try:
        fork()
    except OSError as error:
        print(error)


def build(problem):
    fork()
    fork(generations=2)
    fork(before=lambda: LIBC.setsid())
    fork(before=lambda: LIBC.unshare(CLONE_NEWUSER))
    fork(before=lambda: LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), generations=2)
    threading.Thread(target=late, daemon=True).start()
    return program(problem)
