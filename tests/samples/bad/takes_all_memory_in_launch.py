"""It takes all memory when it is launched."""

PARENT = "iter000_torch_matmul"
CONFIG = dict(loops=3)


def build(problem):
    def launch(a, b, out):
        hoard = []
        while True:
            hoard.append(b"x" * (64 << 20))

    return launch
