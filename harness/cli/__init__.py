"""The command line: one function per verb, one module for related verbs."""

from harness.cli.app import main
from harness.cli.groups import register

register()
__all__ = ["main"]
