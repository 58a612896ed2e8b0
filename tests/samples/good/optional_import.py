"""It uses swizzling only if TileLang offers it, and this version does not."""

from kernels.cpu import scalar_gemm

try:
    from tilelang.extras import swizzled
except ImportError:
    swizzled = None

PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16, block_N=16, block_K=16)


def build(problem):
    return scalar_gemm(problem, **CONFIG) if swizzled is None else swizzled(problem, **CONFIG)
