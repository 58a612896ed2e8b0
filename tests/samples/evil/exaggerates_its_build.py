"""It describes its kernel by texts and sizes that no record and no table can take."""

from harness.judge.child import contestant
from harness.judge.facts.compilation import Compilation, Launch
from harness.judge.messages import Built
from kernels.honest import program

TRICK = 2
VERDICT = "worthless crash does_not_fit"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)

HUGE = (1 << 62, -1, 0)
LAUNCH = Launch("\x1b[2J\n" * 1000, HUGE, HUGE, HUGE, -(1 << 62))


def build(problem):
    made = Compilation("\ud800".encode("utf-8", "replace").decode() * (1 << 20), (LAUNCH,) * 1000, b"\0" * 1024, "x\n")
    contestant.Built = lambda seconds, tensors, *rest: Built(1e300, tensors, made, "")
    return program(problem)
