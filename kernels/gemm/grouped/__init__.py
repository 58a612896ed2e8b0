"""GEMM of groups of rows, each with weights of its own."""

from kernels.gemm.grouped.kernel import grouped

__all__ = ["grouped"]
