"""The command line: one verb a function, related verbs a module."""

from harness.cli import itself, line, notebook, profile
from harness.cli.app import guarded, main

__all__ = ["guarded", "itself", "line", "main", "notebook", "profile"]
