"""Side-effect module: importing it preloads torch and TileLang. Only the forkserver imports it."""

from harness.judge.child.preloading import preload

preload()
