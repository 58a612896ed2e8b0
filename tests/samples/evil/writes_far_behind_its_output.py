"""It writes in five places of the arena that are not its own, far from its output."""

import ctypes
from itertools import cycle

from kernels.honest import compiled

TRICK = 24
RUNS_ON = ("cpu",)
VERDICT = "wrong_result input_changed crash"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)
    places = cycle((-4096, -64, 64, 4096, 65536))

    def launch(a, b, out):
        kernel(a, b, out)
        place = next(places)
        ctypes.memset(out.data_ptr() + place + (out.nbytes if place > 0 else 0), 0x42, 8)

    return launch
