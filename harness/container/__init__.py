"""The container: build the image, and run a verb in it with the least rights that the verb needs."""

from harness.container import engine, image, sandbox
from harness.container.sandbox import ContainerCommand, run

__all__ = ["ContainerCommand", "engine", "image", "run", "sandbox"]
