"""Repositories of one's own: what ``tilebench init`` writes."""

from pathlib import Path
from typing import Final

from harness.machine import files
from harness.machine.repository import OWN

STARTER: Final = Path(__file__).with_name("starter")  # laid out as a repository is
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
