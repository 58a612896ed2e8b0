"""Matrix product in register tiles."""

from kernels.cpu.register_blocked.kernel import register_blocked

__all__ = ["register_blocked"]
