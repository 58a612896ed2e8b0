"""Matrix product in three plain loops."""

from kernels.cpu.plain_loops.kernel import plain_loops

__all__ = ["plain_loops"]
