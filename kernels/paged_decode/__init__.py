"""Attention of new tokens to a cache in pages, for Hopper."""

from kernels.paged_decode.kernel import paged_decode

__all__ = ["paged_decode"]
