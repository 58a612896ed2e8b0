"""What the forkserver is told to import, and nobody else: it does so at once."""

from harness.preloading import preload

preload()
