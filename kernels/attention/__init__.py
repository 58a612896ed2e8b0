"""Attention forward for Hopper."""

from kernels.attention.forward import Shape, forward

__all__ = ["Shape", "forward"]
