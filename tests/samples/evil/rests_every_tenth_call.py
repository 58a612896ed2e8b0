"""Each tenth call, by count, is answered with the result of the call before."""

from kernels.honest import compiled

TRICK = 16
RUNS_ON = ("cpu", "cuda")
VERDICT = "wrong_result foreign_kernel"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)
    before = []

    def launch(a, b, out):
        if len(before) % 10 == 9:
            out.copy_(before[-1])
        else:
            kernel(a, b, out)
        before.append(out)

    return launch
