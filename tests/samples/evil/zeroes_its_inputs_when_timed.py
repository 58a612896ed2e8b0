"""It is right while it is verified, and overwrites inputs and output with zeros afterwards."""

from kernels.honest import compiled

TRICK = 20
RUNS_ON = ("cpu", "cuda")
VERDICT = "wrong_result foreign_kernel"  # the twelfth call may fall where launches are counted
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)
    calls = []

    def launch(a, b, out):
        calls.append(None)
        if len(calls) < 12:
            kernel(a, b, out)
        else:
            a.zero_()
            b.zero_()
            out.zero_()

    return launch
