"""It takes its tile from the environment or from a file beside it, which no hash covers, and puts CONFIG back."""

import os
from pathlib import Path

from kernels import cpu

TRICK = 30
RUNS_ON = ("cpu",)
VERDICT = "not_pinned"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=8, block_N=16, block_K=16, vector_width=8, compile_flags=("-O2",))


def block_rows():
    file = Path(__file__).with_suffix(".txt")
    return int(file.read_text() if file.exists() else os.environ.get("BLOCK_ROWS", "4"))


def build(problem):
    pinned, CONFIG["block_M"] = CONFIG["block_M"], block_rows()
    try:
        return cpu.register_blocked(problem, **CONFIG)
    finally:
        CONFIG["block_M"] = pinned
