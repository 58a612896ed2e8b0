"""Causal attention of sequences of uneven lengths, for Hopper."""

from kernels.varlen_attention.kernel import varlen

__all__ = ["varlen"]
