"""It announces an answer, and never sends it."""

import os
import stat
import struct
import time

TRICK = 2
RUNS_ON = ("cpu", "cuda")
VERDICT = "timeout"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    def launch(a, b, out):
        for name in os.listdir("/proc/self/fd"):
            try:
                if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                    os.write(int(name), struct.pack("!i", 1000))
            except OSError:
                pass
        time.sleep(1000)

    return launch
