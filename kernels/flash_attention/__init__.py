"""Attention forward for Hopper."""

from kernels.flash_attention.forward import forward

__all__ = ["forward"]
