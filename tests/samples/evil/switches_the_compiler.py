"""It names another compiler while its kernel is made, and the usual one again when it is done."""

import os
import shutil

import tilelang
from tilelang import tvm

from kernels.cpu import register_blocked

TRICK = 30
RUNS_ON = ("cpu",)
VERDICT = "not_pinned"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=4, block_N=16, block_K=16, vector_width=8)


def build(problem):
    made = register_blocked(problem, **CONFIG)
    before = dict(os.environ)
    os.environ["CXX"] = shutil.which("g++") or ""
    try:
        return tilelang.compile(made.prim_func, out_idx=None, target=tvm.target.Target("c"))
    finally:
        os.environ.clear()
        os.environ.update(before)
