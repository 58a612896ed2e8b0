"""It describes its kernel by more bytes than a message may have."""

from harness.judge.child import contestant
from harness.judge.facts.compilation import Compilation
from harness.judge.messages import Built
from kernels.honest import program

TRICK = 2
RUNS_ON = ("cpu", "cuda")
VERDICT = "crash"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    made = Compilation("x" * (1 << 25))
    contestant.Built = lambda seconds, tensors, *rest: Built(seconds, tensors, made, "")
    return program(problem)
