"""It never returns."""

TRICK = 29
RUNS_ON = ("cpu", "cuda")
VERDICT = "timeout"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    def launch(a, b, out):
        while True:
            pass

    return launch
