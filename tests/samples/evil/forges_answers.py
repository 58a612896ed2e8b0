"""It finds its process's channels, and answers in place of the harness, early and often."""

import os
import stat
import struct
import threading
import time

import msgspec

from kernels.honest import compiled

TRICK = 2
RUNS_ON = ("cpu", "cuda")
VERDICT = "crash clock wrong_result timeout"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


FORGED = msgspec.msgpack.encode({"type": "Ran", "elapsed_ms": 0.01})


def flood():
    while True:
        for name in os.listdir("/proc/self/fd"):
            try:
                if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                    os.write(int(name), struct.pack("!i", len(FORGED)) + FORGED)
            except OSError:
                pass
        time.sleep(0.001)


def build(problem):
    kernel = compiled(problem)
    started = []

    def launch(a, b, out):
        if not started:
            started.append(threading.Thread(target=flood, daemon=True))
            started[0].start()
        kernel(a, b, out)

    return launch
