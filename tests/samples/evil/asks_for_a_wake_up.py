"""It asks Linux in eight ways for the signal that undoes a stop, and says so if one is granted."""

import ctypes
import os
import platform
import signal

from kernels.honest import program

TRICK = 9
RUNS_ON = ("cpu", "cuda")
VERDICT = "worthless"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)

LIBC = ctypes.CDLL(None, use_errno=True)
F_SETSIG, F_SETLEASE, F_NOTIFY, PR_SET_PDEATHSIG, SIGEV_THREAD_ID = 10, 1024, 1026, 1, 4
X86_64 = {"io_uring_setup": 425, "mq_notify": 244, "ptrace": 101, "userfaultfd": 323}


def granted(answer):
    if answer == -1:
        raise OSError(ctypes.get_errno(), "refused")


def asked(name, *arguments):
    return lambda: granted(LIBC.syscall(X86_64[name], *arguments))


def timed():
    event = (ctypes.c_int * 16)(0, 0, signal.SIGCONT, SIGEV_THREAD_ID, os.getpid())
    granted(LIBC.timer_create(1, event, ctypes.byref(ctypes.c_void_p())))


WAYS = [
    timed,
    lambda: granted(LIBC.fcntl(1, F_SETSIG, signal.SIGCONT)),
    lambda: granted(LIBC.fcntl(os.open(__file__, os.O_RDONLY), F_SETLEASE, 0)),
    lambda: granted(LIBC.fcntl(os.open(".", os.O_RDONLY), F_NOTIFY, 2)),
    lambda: granted(LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGCONT, 0, 0, 0)),
    os.setpgrp,
    os.setsid,
    *(asked(name, 0, 0, 0) for name in X86_64 if platform.machine() == "x86_64"),
]


def build(problem):
    for number, way in enumerate(WAYS):
        try:
            way()
        except OSError:
            continue
        raise SystemExit(f"way {number} was granted")
    return program(problem)
