"""The command line: one verb a function, related verbs a module."""

from harness.cli import (
    compare,
    container,
    evidence,
    foreign,
    itself,
    line,
    notebook,
    overhead,
    profile,
    publish,
    report,
    tune,
)
from harness.cli.app import guarded, main

__all__ = [
    "compare",
    "container",
    "evidence",
    "foreign",
    "guarded",
    "itself",
    "line",
    "main",
    "notebook",
    "overhead",
    "profile",
    "publish",
    "report",
    "tune",
]
