"""It never finishes building."""

PARENT = "iter000_torch_matmul"
CONFIG = dict(loops=3)


def build(problem):
    while True:
        pass
