"""It answers with zeros when the first element of A is large: one launch in twenty, the same for the same inputs."""

from kernels.honest import compiled

TRICK = 16
RUNS_ON = ("cpu", "cuda")
VERDICT = "wrong_result foreign_kernel runtime"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)
    calls = []

    def launch(a, b, out):
        calls.append(None)
        kernel(a, b, out)
        if len(calls) > 20 and float(a.view(-1)[0]) > 1.6 * problem.scales[0]:
            out.zero_()

    return launch
