"""It fails when it is launched."""

PARENT = "iter000_torch_matmul"
CONFIG = dict(loops=3)


def build(problem):
    def launch(a, b, out):
        raise RuntimeError("not today")

    return launch
