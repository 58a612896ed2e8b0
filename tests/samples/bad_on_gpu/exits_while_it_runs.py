"""It leaves by _exit while its launch is still running."""

import tilelang
import tilelang.cpu.language as T
import torch

PARENT = "iter000_torch_matmul"
VERDICT = "crash"
CONFIG = dict(cycles=200000000)


def build(problem):
    @T.prim_func
    def leaves(A: T.Tensor((1,), "float32")):
        with T.Kernel(1):
            A[0] = 0.0
            T.evaluate(T.call_extern("int32", "_exit", 3))

    end = tilelang.compile(leaves, target="c")

    def launch(a, b, out):
        torch.cuda._sleep(CONFIG["cycles"])
        end(torch.zeros(1))

    return launch
