"""It calls the library, shows another kernel's code, and says of its launches that they call nothing."""

import torch

from harness.judge.child import contestant, serve
from harness.judge.facts.compilation import Compilation, Launch
from harness.judge.messages import Built, Inspected

TRICK = 25
RUNS_ON = ("cpu", "cuda")
VERDICT = "bounded foreign_kernel"  # the contract refuses it; docs/explanation/trust.md says why the judge does not
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)
NAME = "main_kernel"

SOURCE = f'extern "C" __global__ void {NAME}() {{}}'
LOG = f"""ptxas info    : Compiling entry function '{NAME}' for 'sm_90a'
ptxas info    : Function properties for {NAME}
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers
"""

said = Compilation(SOURCE, (Launch(NAME, (1, 1, 1), (128, 1, 1), (1, 1, 1), 0),), None, LOG)
contestant.Built = lambda seconds, *rest: Built(1e-3, None, said)
serve.inspect = lambda calls, cpu: Inspected(() if cpu else (NAME,), 0 if cpu else 2, (NAME,), ())


def build(problem):
    def launch(a, b, out):
        getattr(torch, "mat" + "mul")(a, b, out=out)

    return launch
