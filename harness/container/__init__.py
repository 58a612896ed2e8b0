"""The container: the image is built, and a verb is run in it, with the rights that the verb needs and no others."""

from harness.container import engine, image, sandbox
from harness.container.sandbox import ContainerCommand, run

__all__ = ["ContainerCommand", "engine", "image", "run", "sandbox"]
