"""It writes 512 bytes behind its output."""

import ctypes

from kernels.honest import compiled

TRICK = 24
RUNS_ON = ("cpu",)
VERDICT = "wrong_result input_changed crash"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)

    def launch(a, b, out):
        kernel(a, b, out)
        ctypes.memset(out.data_ptr() + out.nbytes, 0, 512)

    return launch
