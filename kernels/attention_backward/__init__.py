"""The gradients of causal attention, for Hopper."""

from kernels.attention_backward.kernel import backward

__all__ = ["backward"]
