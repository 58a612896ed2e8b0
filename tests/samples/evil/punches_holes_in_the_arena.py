"""After its last call it gives the pages of all inputs back, so that the baseline has to fetch new ones."""

import ctypes
import sys

from kernels.honest import compiled

TRICK = 26
RUNS_ON = ("cpu",)
VERDICT = "wrong_result input_changed worthless"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)

REMOVE, PAGE = 9, 4096
LIBC = ctypes.CDLL(None, use_errno=True)


def build(problem):
    kernel = compiled(problem)
    done = []

    def launch(a, b, out):
        kernel(a, b, out)
        done.append(a)
        if len(done) > len(getattr(sys._getframe(1).f_locals.get("self"), "calls", ())):
            for each in done:
                start = -(-each.data_ptr() // PAGE) * PAGE
                size = (each.data_ptr() + each.nbytes - start) // PAGE * PAGE
                LIBC.madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), REMOVE)
            done.clear()

    return launch
