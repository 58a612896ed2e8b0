"""Repositories of one's own: what ``init`` and ``new-operator`` write."""

import keyword
import re
from pathlib import Path
from typing import Final

from harness.errors import UsageError
from harness.judge.facts.hashes import BASELINES
from harness.machine import files
from harness.machine.repository import OWN, code

STARTER: Final = Path(__file__).with_name("starter")  # laid out as a repository is
EXAMPLE: Final = "example"  # the name that an operator's name replaces
FOLDERS: Final = (*OWN.values(), "tuning")


def init(root: Path) -> list[Path]:
    """Write what a repository lacks, over nothing that is there; returns the new paths."""
    written = []
    for template in sorted(path for path in STARTER.rglob("*") if path.is_file() and path.suffix != ".pyc"):
        path = root / template.relative_to(STARTER)
        if not path.exists():
            files.put(path, template.read_bytes())
            written.append(path)
    for name in FOLDERS:
        if not (root / name).is_dir():
            files.put(root / name / ".gitkeep", b"")  # git keeps no empty folder
            written.append(root / name)
    return written


def new_operator(root: Path, name: str) -> tuple[Path, Path]:
    """Write an operator to edit, and a function for its baseline; returns their paths. Raises UsageError."""
    if re.fullmatch("[a-z][a-z0-9]*", name, re.ASCII) is None:
        raise UsageError(f"operator '{name}' is not of lower-case letters and digits, as in rmsnorm")
    if keyword.iskeyword(name):
        raise UsageError(f"operator '{name}' is a word of Python, and no function can have its name")
    operator = root / OWN["harness.operators"] / f"{name}.py"
    baseline = root / BASELINES / f"torch_{name}.py"
    for path, package in ((operator, "harness.operators"), (baseline, BASELINES)):
        if path.exists():
            raise UsageError(f"{path} is there already; nothing was overwritten")
        if code(root).joinpath(*package.split("."), path.name).exists():
            raise UsageError(f"operator '{name}' is not free: {package}.{path.stem} is shipped; choose another name")
    for path, example in ((operator, "example_operator.py"), (baseline, "example_baseline.py")):
        text = Path(__file__).with_name(example).read_text(encoding="utf-8")
        files.put(path, re.sub(rf"\b{EXAMPLE}(?=\b|_)", name, text).encode())
    return operator, baseline
