"""Matrix products for one CPU core (target ``c``): each takes a problem and its levers and returns a Program."""

from kernels.cpu.plain_loops import plain_loops
from kernels.cpu.register_blocked import register_blocked
from kernels.cpu.scalar_gemm import scalar_gemm

__all__ = ["plain_loops", "register_blocked", "scalar_gemm"]
