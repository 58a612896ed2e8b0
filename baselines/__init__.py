"""The opponents: what a user would call instead of the kernel. An iteration cannot choose them."""

from baselines.interface import Baseline, library

__all__ = ["Baseline", "library"]
