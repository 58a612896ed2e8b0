"""Becomes a ladder's command line: ``PARENT CPUS ARGUMENT…``. It stops when its parent dies, and keeps to its cores."""

import ctypes
import os
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's own handler would be gone, and the signal with it
    parent, cpus, *arguments = sys.argv[1:]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)  # kept by what it becomes
    if os.getppid() != int(parent):
        sys.exit(3)
    os.sched_setaffinity(0, {int(cpu) for cpu in cpus.split(",")})
    os.execv(sys.executable, [sys.executable, *arguments])


if __name__ == "__main__":
    main()
