"""It overwrites the inputs with zeros, for which zeros are right."""

TRICK = 20
RUNS_ON = ("cpu", "cuda")
VERDICT = "wrong_result input_changed"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    def launch(a, b, out):
        a.zero_()
        b.zero_()
        out.zero_()

    return launch
