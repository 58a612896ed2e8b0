"""The command line: one verb a function, related verbs a module."""

from harness.cli import (
    compare,
    container,
    evidence,
    foreign,
    health,
    notebook,
    overhead,
    profile,
    publish,
    report,
    stages,
    tune,
)
from harness.cli.app import guarded, main

__all__ = [
    "compare",
    "container",
    "evidence",
    "foreign",
    "guarded",
    "health",
    "main",
    "notebook",
    "overhead",
    "profile",
    "publish",
    "report",
    "stages",
    "tune",
]
