"""It prints more than a disk holds."""

TRICK = 29
RUNS_ON = ("cpu", "cuda")
VERDICT = "compile crash"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    line = "x" * (1 << 20)
    while True:
        print(line)
