"""Imported by the forkserver, and by nobody else."""

from harness.preloading import preload

preload()
