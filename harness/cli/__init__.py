"""The command line: one verb a function, related verbs a module."""

from harness.cli import container, itself, line, notebook
from harness.cli.app import guarded, main

__all__ = ["container", "guarded", "itself", "line", "main", "notebook"]
