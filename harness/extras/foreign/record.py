"""Records of foreign scripts: what the judge said of a kernel, or what a script said of itself; a line of JSON each."""

from enum import StrEnum
from pathlib import Path

import msgspec

from harness.catalog.tree import Tree
from harness.records.base import Cause, Environment, LadderRecord, Stage, Status
from harness.records.builds import Build
from harness.records.results import Measurement, Trial


class Basis(StrEnum):
    """Whose word an outcome is."""

    JUDGED = "judged"
    SELF_REPORTED = "self-reported"


class Said(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a script printed of itself; None where it did not say. ``passed`` is its own verdict."""

    passed: bool | None
    time_ms: float | None
    tflops: float | None


class ForeignRecord(LadderRecord, frozen=True):
    """The outcome of one foreign script in one run.

    ``script`` is its file's name without ``.py``, ``tree`` the name of the folder that was given. ``sources_sha256`` is
    of the script and what it imports of its tree, ``finder_sha256`` of the code that looks for its kernel. What is
    self-reported has a ``reason`` why it could not be judged, and no measurement.
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
    said: Said | None = None
    ended: str | None = None  # how its own run ended, where not well


def path_of(tree: Tree, gpu: str, shape_key: str, model: str) -> Path:
    """Beside the notebook of our own iterations, and never in the foreign tree."""
    return tree.root / "tuning" / gpu / "foreign" / shape_key / model / "results.jsonl"
