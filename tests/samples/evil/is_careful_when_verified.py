"""It detects that it is being verified, and is right only then."""

from kernels.honest import compiled

TRICK = 27
RUNS_ON = ("cpu", "cuda")
VERDICT = "wrong_result"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)
    calls = []

    def launch(a, b, out):
        calls.append(None)
        kernel(a, b, out)
        if len(calls) > 12:
            out[: out.shape[0] // 2] = 0

    return launch
