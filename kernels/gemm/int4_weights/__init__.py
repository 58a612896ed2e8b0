"""GEMM with weights of 4 bits."""

from kernels.gemm.int4_weights.kernel import int4_weights

__all__ = ["int4_weights"]
