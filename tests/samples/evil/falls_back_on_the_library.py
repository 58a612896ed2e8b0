"""Its kernel never works, and an except clause calls the library instead."""

TRICK = 25
RUNS_ON = ("cpu", "cuda")
VERDICT = "foreign_kernel"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    def launch(a, b, out):
        try:
            raise RuntimeError("my kernel is not ready")
        except RuntimeError:
            out.copy_(a.__matmul__(b))

    return launch
