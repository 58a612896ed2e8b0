"""It asks for nine things that only a privileged process may do, and says so if one is granted."""

import ctypes
import os
import platform

from kernels.honest import program

TRICK = 3
RUNS_ON = ("cpu", "cuda")
VERDICT = "worthless"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)

LIBC = ctypes.CDLL(None, use_errno=True)
X86_64 = {"acct": (163, None), "fanotify_init": (300, 0, 0)}
FILES = ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/pid_max", "/sys/kernel/mm/transparent_hugepage/enabled")


def asked(number, *arguments):
    if LIBC.syscall(number, *arguments) == -1:
        raise OSError(ctypes.get_errno(), "refused")


WAYS = [
    *(lambda each=each: os.close(os.open(each, os.O_WRONLY)) for each in FILES),
    lambda: os.mknod("disk", 0o60600, os.makedev(7, 0)),
    lambda: os.chown(".", 12345, 12345),
    lambda: os.setgroups([0]),
    lambda: os.setuid(12345),
    *(lambda each=each: asked(*each) for each in X86_64.values() if platform.machine() == "x86_64"),
]


def build(problem):
    for number, way in enumerate(WAYS):
        try:
            way()
        except OSError:
            continue
        raise SystemExit(f"way {number} was granted")
    return program(problem)
