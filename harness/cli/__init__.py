"""The command line: one verb a function, related verbs a module."""

from harness.cli import container, evidence, itself, line, notebook, overhead, profile, tune
from harness.cli.app import guarded, main

__all__ = ["container", "evidence", "guarded", "itself", "line", "main", "notebook", "overhead", "profile", "tune"]
