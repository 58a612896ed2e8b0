"""It brings a verify() and a bench() of its own, and prints what the contract promises."""

from kernels.honest import program

TRICK = 1
RUNS_ON = ("cpu", "cuda")
VERDICT = "worthless"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


print("VERIFY: PASS")
print("TFLOPS: 9999.0 time_ms: 0.000001")


def build(problem):
    return program(problem)


def verify():
    return True


def bench():
    return 9999.0
