"""It takes its family from the modules that are loaded, where no import says so."""

import importlib

TRICK = 30
RUNS_ON = ("cpu",)
VERDICT = "not_pinned worthless"  # the contract refuses it; docs/explanation/trust.md says why the judge may not
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=8, block_N=16, block_K=16, vector_width=8, compile_flags=("-O2",))


def build(problem):
    family = importlib.import_module("kernels.cpu").register_blocked
    return family(problem, **{**CONFIG, "block_M": 4})
