"""It leaves out the last sixteenth of K."""

from kernels.honest import compiled

TRICK = 22
RUNS_ON = ("cpu", "cuda")
VERDICT = "wrong_result"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    M, N, K = problem.dims
    kernel = compiled(problem)

    def launch(a, b, out):
        short = a.clone()
        short[:, K - K // 16 :] = 0
        kernel(short, b, out)

    return launch
