"""It looks for a way out through process 1 of its namespace and through its parents, and says so if one works."""

import os
import signal
from pathlib import Path

from kernels.honest import program

TRICK = 3
RUNS_ON = ("cpu", "cuda")
VERDICT = "worthless"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def reads(pid):
    for name in ("environ", "mem", "maps", "stack"):
        yield lambda name=name: Path(f"/proc/{pid}/{name}").open("rb").read(1)
    for name in ("root", "cwd"):
        yield lambda name=name: os.listdir(f"/proc/{pid}/{name}")
    for number in range(16):
        yield lambda number=number: os.close(os.open(f"/proc/{pid}/fd/{number}", os.O_RDONLY)) is None
    yield lambda: os.pidfd_open(pid) and signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGSTOP)


def build(problem):
    for pid in {1, os.getppid()} - {0, os.getpid()}:
        for number, way in enumerate(reads(pid)):
            try:
                got = way()
            except OSError:
                continue
            if got:
                raise SystemExit(f"way {number} worked on process {pid}")
    return program(problem)
