"""It takes all memory."""

PARENT = "iter000_torch_matmul"
CONFIG = dict(loops=3)


def build(problem):
    hoard = []
    while True:
        hoard.append(b"x" * (64 << 20))
