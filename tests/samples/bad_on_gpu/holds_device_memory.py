"""It takes most of the device's memory, and dies of a signal while it holds it."""

import tilelang
import tilelang.cpu.language as T
import torch

PARENT = "iter000_torch_matmul"
VERDICT = "crash"
CONFIG = dict(share=0.8)


def build(problem):
    @T.prim_func
    def dies(A: T.Tensor((1,), "float32")):
        with T.Kernel(1):
            A[0] = 0.0
            T.evaluate(T.call_extern("int32", "raise", 11))

    end = tilelang.compile(dies, target="c")

    def launch(a, b, out):
        free, _ = torch.cuda.mem_get_info()
        held = torch.empty(int(free * CONFIG["share"]), dtype=torch.uint8, device="cuda")
        held.zero_()
        torch.cuda.synchronize()
        end(torch.zeros(1))

    return launch
