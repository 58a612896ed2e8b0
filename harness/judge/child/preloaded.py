"""What the forkserver is told to import, and nobody else: it does so at once."""

from harness.judge.child.preloading import preload

preload()
