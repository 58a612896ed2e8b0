"""What users call: matrix products and attention by the kernel measured best for this GPU, or a sound default."""

from kernels.front.attending import attention
from kernels.front.calls import linear, matmul
from kernels.front.launches import warm_up

__all__ = ["attention", "linear", "matmul", "warm_up"]
