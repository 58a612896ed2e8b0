"""It calls the function that is noted by way of the note's own closure."""

from types import FunctionType

from kernels.cpu import register_blocked

TRICK = 30
RUNS_ON = ("cpu",)
VERDICT = "not_pinned worthless"  # the contract refuses it; docs/explanation/trust.md says why the judge may not
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=8, block_N=16, block_K=16, vector_width=8, compile_flags=("-O2",))


def build(problem):
    cells = [each.cell_contents for each in register_blocked.__closure__ or ()]
    below = next((each for each in cells if isinstance(each, FunctionType)), register_blocked)
    return below(problem, **{**CONFIG, "block_M": 4})
