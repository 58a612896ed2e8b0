"""It tries to enter the namespaces of others, and to leave its folder by mounts, and says so if one works."""

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
NEW_USER, NEW_MOUNTS, BIND, REMOUNT, DETACH = 0x10000000, 0x00020000, 1 << 12, 1 << 5, 2
X86_64 = {"pivot_root": (155, b".", b"."), "open_tree": (428, -100, b"/", 1)}


def done(answer):
    if answer == -1:
        raise OSError(ctypes.get_errno(), "refused")


def entered(pid, kind):
    done(LIBC.setns(os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY), 0))


WAYS = [
    *(lambda pid=pid, kind=kind: entered(pid, kind) for pid in (1, os.getppid()) for kind in ("mnt", "pid", "net")),
    lambda: done(LIBC.umount2(b"/proc", DETACH)),
    lambda: done(LIBC.mount(b"/", b"/", None, BIND | REMOUNT, None)),
    lambda: done(LIBC.mount(b"none", b"/dev/shm", b"tmpfs", 0, None)),
    *(lambda each=each: done(LIBC.syscall(*each)) for each in X86_64.values() if platform.machine() == "x86_64"),
]


def build(problem):
    for inside in (False, True):
        for number, way in enumerate(WAYS):
            try:
                way()
            except OSError:
                continue
            raise SystemExit(f"way {number} worked")
        if not inside and LIBC.unshare(NEW_USER | NEW_MOUNTS):
            break
    return program(problem)
