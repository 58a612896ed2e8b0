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
from harness.cli.app import main

__all__ = [
    "compare",
    "container",
    "evidence",
    "foreign",
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
