"""It does the work of every second call only, and skips the others."""

from kernels.honest import compiled

TRICK = 13
RUNS_ON = ("cpu", "cuda")
VERDICT = "wrong_result foreign_kernel"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)
    calls = []

    def launch(a, b, out):
        calls.append(None)
        if len(calls) < 12 or len(calls) % 2:
            kernel(a, b, out)

    return launch
