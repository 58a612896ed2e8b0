"""Records of foreign scripts, one line of JSON each: the judge's outcome of a kernel, or a script's own figures."""

from enum import StrEnum
from pathlib import Path

import msgspec

from harness.catalog.tree import Tree
from harness.records.base import Cause, Environment, LadderRecord, Stage, Status
from harness.records.builds import Build
from harness.records.results import Measurement, Trial


class Basis(StrEnum):
    """Where an outcome comes from: the judge, or the script's own output."""

    JUDGED = "judged"
    SELF_REPORTED = "self-reported"


class SelfReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Figures that a script printed of itself, None where it printed none; ``passed`` is its own verdict."""

    passed: bool | None
    time_ms: float | None
    tflops: float | None


class ForeignRecord(LadderRecord, frozen=True):
    """The outcome of one foreign script in one run.

    ``script`` is the name of its file without ``.py``, ``tree`` the name of the tree's folder. ``sources_sha256`` is
    the hash of the script and of its imports from the tree, ``finder_sha256`` that of the code that finds its kernel.
    A self-reported outcome has no measurement, and its ``reason`` says why the judge could not judge it.
    """

    script: str
    number: int
    tree: str
    basis: Basis
    status: Status
    sources_sha256: str
    finder_sha256: str
    environment: Environment
    stage: Stage | None = None
    cause: Cause | None = None
    reason: str | None = None
    build: Build | None = None
    verification: tuple[Trial, ...] = ()
    measurement: Measurement | None = None
    said: SelfReport | None = None
    ended: str | None = None  # how the script's own run failed


def path_of(tree: Tree, gpu: str, shape_key: str, model: str) -> Path:
    """Beside the notebook of our own iterations, never in the foreign tree."""
    return tree.root / "tuning" / gpu / "foreign" / shape_key / model / "results.jsonl"
