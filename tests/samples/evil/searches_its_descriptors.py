"""It looks for a descriptor of others among those that it inherited, and says so if there is one."""

import fcntl
import os
import stat

from kernels.honest import program

TRICK = 3
RUNS_ON = ("cpu",)
VERDICT = "worthless"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def kind_of(number):
    mode, target = os.fstat(number).st_mode, os.readlink(f"/proc/self/fd/{number}")
    if target.startswith((os.getcwd(), "/dev/null", "/proc/", "anon_inode:", "/sys/devices/system/cpu")):
        return ""
    if stat.S_ISFIFO(mode) and fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        return ""  # it says when the parent ends
    return "channel" if stat.S_ISSOCK(mode) else target


def build(problem):
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(kind_of(int(name)))
        except OSError:
            continue
    others = [each for each in found if each not in ("", "channel")]
    if others or found.count("channel") > 2:
        raise SystemExit(f"it has {found.count('channel')} channels and {others}")
    return program(problem)
