"""It asks the kernel for a timer: its SIGCONT wakes the stopped process, and its thread takes the core of the baseline."""

import ctypes
import signal
import threading
import time

from kernels.honest import program

TRICK = 26
RUNS_ON = ("cpu",)
VERDICT = "worthless"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def burn():
    until = time.monotonic() + 60
    while time.monotonic() < until:
        pass


def build(problem):
    event = (ctypes.c_byte * 64)()
    ctypes.c_int.from_buffer(event, 8).value = signal.SIGCONT  # sigev_signo, behind sigev_value
    timer, every_ms = ctypes.c_void_p(), 1_000_000
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.timer_create(1, event, ctypes.byref(timer)) == 0:
        libc.timer_settime(timer, 0, (ctypes.c_long * 4)(0, every_ms, 0, every_ms), None)
        threading.Thread(target=burn, daemon=True).start()
    return program(problem)
