"""It launches each call once a block, and rests when the same call comes again at once, as in a phase of a second."""

import time

from kernels.honest import compiled

TRICK = 35
RUNS_ON = ("cpu", "cuda")
REGIME = "sustained"
VERDICT = "clock roofline foreign_kernel"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)
# Between the blocks of one side the other has its turn. A GPU is ordered about more slowly than a CPU.
PAUSE_S = {"cpu": 0.0002, "cuda": 0.002}


def build(problem):
    kernel = compiled(problem)
    done = set()
    last = [0.0]

    def launch(a, b, out):
        if time.perf_counter() - last[0] > PAUSE_S[out.device.type]:
            done.clear()
        if out.data_ptr() not in done:
            done.add(out.data_ptr())
            kernel(a, b, out)
        last[0] = time.perf_counter()

    return launch
