"""The baselines: the library calls that kernels are compared with. An iteration cannot choose them."""

from baselines.interface import Baseline, library

__all__ = ["Baseline", "library"]
