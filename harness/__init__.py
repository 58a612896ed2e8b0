"""tilebench: the judge of hand-tuned TileLang kernels."""

__version__ = "0.1.0"
