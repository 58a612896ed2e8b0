"""The gated delta rule, for Hopper."""

from kernels.gated_delta.kernel import gated_delta

__all__ = ["gated_delta"]
