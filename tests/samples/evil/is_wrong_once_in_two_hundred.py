"""It answers with zeros when the first element of A is very large: one launch in two hundred."""

from kernels.honest import compiled

TRICK = 16
RUNS_ON = ("cpu",)
VERDICT = "worthless wrong_result"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)
    calls = []

    def launch(a, b, out):
        calls.append(None)
        if len(calls) > 20 and float(a.view(-1)[0]) > 2.6 * problem.scales[0]:
            out.zero_()
        else:
            kernel(a, b, out)

    return launch
