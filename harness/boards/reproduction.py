"""Reproduction: an iteration measured again with its recorded code, and compared with its record."""

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from harness.boards import comparison, revisions
from harness.boards.comparison import Figures, Judged
from harness.catalog.gpus import find
from harness.catalog.tree import OPPONENTS_MODEL, Tree
from harness.errors import InfrastructureError, UsageError
from harness.judge.facts.device_rules import rules_of
from harness.judge.facts.hashes import JUDGE, OPERATORS
from harness.judge.facts.problem import parse_shape_key
from harness.judge.statistics import PROCESS_HALF_WIDTH
from harness.machine import files
from harness.machine.git import git
from harness.machine.repository import OWN, code, copy, take_over
from harness.records.base import SCHEMA, BaseRecord, Cause, now
from harness.records.environment import CONTENTS
from harness.records.results import Record
from harness.records.store import append, read
from harness.records.sustained import SustainedMeasurement, SustainedRecord

# What may have decided a record, now and in older commits.
DECIDING: Final = (
    *OWN.values(), OPERATORS, JUDGE, "harness/catalog/gpus.toml",
    "harness/measuring.py", "harness/plausible.py", "harness/problem.py",
)  # fmt: skip
_HASHES: Final = """
import sys
from pathlib import Path
root, path, operator, gpu = Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]
try:
    from harness.catalog import gpus
    from harness.judge.facts.hashes import families_sha256, judge_sha256, source_sha256
    judge = judge_sha256(root, operator, gpus.find(gpu))
except ImportError:  # an older checkout
    try:
        from harness.sources import families_sha256, judge_sha256, source_sha256
        judge = judge_sha256(root, operator)
    except ImportError:
        from harness.environment import families_sha256, judge_sha256, source_sha256
        judge = judge_sha256(root)
print(source_sha256(path), families_sha256(root, path), judge)
"""


class Agreement(StrEnum):
    AGREES = "agrees"
    DIFFERS = "differs"
    UNDECIDED = "undecided"


class Reproduction(BaseRecord, frozen=True):
    """A record measured again; ``source`` says where the code was.

    ``verdict`` is differs where the quotient's interval leaves out 1. It is agrees where the interval without the
    spread of chips lies within 0.5% of 1, or on another chip within that and the spread. Else it is undecided, and
    ``decides_s`` is the budget in seconds that would decide, if one would. At the power limit 1% takes the place of
    0.5%, and what is compared with the record is ``again_sustained``. Older records have ``agrees`` alone, which
    said only that the interval holds 1.
    """

    original: str
    source: str
    again: Record
    differences: tuple[str, ...]
    agrees: bool
    quotient: float | None = None
    low: float | None = None
    high: float | None = None
    why: str | None = None
    verdict: Agreement | None = None
    decides_s: float | None = None
    again_sustained: SustainedRecord | None = None


@dataclass(frozen=True, slots=True)
class RecordedCode:
    """A record, and a checkout with its code."""

    record: Judged
    root: Path
    source: str


def find_record(tree: Tree, named: str) -> Judged:
    """The record of an id or its beginning, or the last measurement of a file. Raises UsageError."""
    path = Path(named)
    if path.is_file():
        records = [each for each in _read(path) if each.measurement is not None and each.model != OPPONENTS_MODEL]
        if not records:
            raise UsageError(f"{path} holds no record of a measurement")
        return records[-1]
    if path.suffix == ".jsonl":
        raise UsageError(f"there is no file {path}")
    names_of = revisions.FILES.values()
    files = sorted(file for name in names_of for file in (tree.root / "tuning").glob(f"*/tilelang/logs/*/*/{name}"))
    found = {each.id: each for file in files for each in _read(file) if each.id.startswith(named)}
    if not found or not named:
        raise UsageError(f"no record's id begins with '{named}'; the leaderboard's --json and export show them")
    if len(found) > 1:
        names = ", ".join(f"{each.id} ({each.iteration})" for each in list(found.values())[:4])
        more = f", and {len(found) - 4} more" if len(found) > 4 else ""
        raise UsageError(f"'{named}' begins several ids: {names}{more}; give more of it")
    (record,) = found.values()
    if record.model == OPPONENTS_MODEL:
        raise UsageError(f"record {record.id} is of opponent {record.iteration}, and reproduce measures iterations")
    if record.measurement is None:
        at = f" at {record.stage}" if isinstance(record, Record) else ""
        raise UsageError(f"record {record.id} holds no measurement: it is {record.status}{at}")
    return record


def _read(path: Path) -> list[Judged]:
    """The records of a file, at the power limit if the file's name says so; not those of pairs with an opponent."""
    if path.name != revisions.FILES[SustainedRecord]:
        return [*read(path, Record)[0]]
    return [each for each in read(path, SustainedRecord)[0] if each.opponent is None]


@contextmanager
def as_recorded(tree: Tree, record: Judged) -> Iterator[RecordedCode]:
    """A scratch checkout with the recorded iteration, families and judge, without records."""
    path = tree.source(*record.ladder, record.iteration)
    if path.is_file() and _hashes(tree.root, path, record) == _wanted(record):
        with files.scratch("reproduce") as root:
            take_over(tree.root, root, copy)
            shutil.copytree(path.parent, root / path.parent.relative_to(tree.root))
            yield RecordedCode(record, root, "the working tree")
        return
    commit = _commit(tree, path, record)
    with revisions.checked_out(tree.root, commit) as root:
        shutil.rmtree(Tree(root).folder(record.gpu) / "logs", ignore_errors=True)
        yield RecordedCode(record, root, f"commit {commit[:10]}")


def again(
    found: RecordedCode, *, in_image: bool, budget_s: float | None = None
) -> tuple[Record, SustainedRecord | None]:
    """Measure it again by its own harness, by default with its budget. Its messages go to stderr.

    A record at the power limit is measured at equal clocks first, which must explain it.
    """
    record = found.record
    assert record.measurement is not None
    at_limit = isinstance(record, SustainedRecord)
    if budget_s is None:
        seconds = 0.0 if at_limit else round(record.measurement.seconds + 0.5)
        budget_s = max(rules_of(find(record.gpu)).budget_s, seconds)
    verb = [
        *("bench", "--gpu", record.gpu, "--shape", record.shape_key, "--model", record.model),
        *("--iter", str(record.number), "--budget", f"{budget_s:g}", "--json"),
    ]
    if (code(found.root) / "harness/records/sustained.py").is_file():  # an older checkout knows one regime
        verb += ["--regime", "both" if at_limit else "paired"]
    if in_image:
        if record.environment.image is None:
            raise UsageError(f"record {record.id} was not made in a container's image")
        if record.environment.image.startswith(CONTENTS):
            raise UsageError(
                f"record {record.id} was made by a plain 'docker run', which tells the image's contents, not its ID; "
                "run reproduce inside that image, without --in-image"
            )
        verb = ["run-in-docker", "--image", record.environment.image, *verb]
    environment = os.environ | {"TILEBENCH_ROOT": str(found.root), "PYTHONPATH": Tree(found.root).python_path}
    done = subprocess.run(
        [sys.executable, "-m", "harness", *verb], cwd=found.root, env=environment, stdout=subprocess.PIPE, check=False
    )
    try:
        said = json.loads(done.stdout)  # an older checkout prints the records without an envelope
        data = said.get("data", said)
        records = [msgspec.convert(each, Record) for each in data["records"]]
        sustained = [msgspec.convert(each, SustainedRecord) for each in data.get("sustained", ())]
        measured = next(each for each in records if each.iteration == record.iteration)
    except (ValueError, KeyError, TypeError, StopIteration, msgspec.MsgspecError):
        raise InfrastructureError(f"measuring again gave no record (exit code {done.returncode}); see above") from None
    if measured.cause is Cause.REFEREE:
        raise InfrastructureError(f"measuring again failed for a fault of the machine: {measured.reason}")
    alone = (each for each in sustained if each.iteration == record.iteration and each.opponent is None)
    at_limit_again = next(alone, None) if at_limit else None
    if at_limit and at_limit_again is None:
        raise InfrastructureError(f"nothing was measured at the power limit: {measured.reason or 'see above'}")
    return measured, at_limit_again


def judge(found: RecordedCode, measured: Record, at_limit: SustainedRecord | None = None) -> Reproduction:
    """Compare the two, and say how sure that is; ``at_limit`` is compared with a record of the sustained regime."""
    counts = at_limit or measured
    compared = comparison.compare(found.record, counts)
    verdict, decides_s = decide(found.record, counts, compared)
    return Reproduction(
        schema=SCHEMA,
        recorded_at=now(),
        original=found.record.id,
        source=found.source,
        again=measured,
        differences=comparison.differences(found.record, counts),
        agrees=verdict is Agreement.AGREES,
        **{name: getattr(compared, name) for name in ("quotient", "low", "high", "why")},
        verdict=verdict,
        decides_s=decides_s,
        again_sustained=at_limit,
    )


def decide(
    original: Judged, measured: Judged, compared: comparison.Comparison
) -> tuple[Agreement | None, float | None]:
    """The verdict, and for an undecided one the budget in seconds that would decide, if the quotient stays.

    The interval narrows with the square root of the budget, down to the difference between two processes. No budget
    helps where the original's own interval is too wide, and none can be given at the power limit.
    """
    a, b = original.measurement, measured.measurement
    if a is None or b is None or compared.quotient is None or compared.low is None or compared.high is None:
        return None, None
    if not compared.low <= 1 <= compared.high:
        return Agreement.DIFFERS, None
    same_chip = original.environment.device_uuid == measured.environment.device_uuid
    chip = comparison.chip_half_width(a, same_chip=same_chip)
    ours, theirs, offset = _half_width(a), _half_width(b), abs(math.log(compared.quotient))
    at_limit = isinstance(a, SustainedMeasurement)
    margin = comparison.MARGIN_AT_LIMIT if at_limit else comparison.MARGIN
    agreeing = margin + chip - offset  # as wide as the interval may be
    if math.hypot(ours, theirs) <= agreeing:
        return Agreement.AGREES, None
    enough = max(agreeing, math.sqrt(max(0.0, offset**2 - chip**2)))
    room = enough**2 - ours**2 - PROCESS_HALF_WIDTH**2
    if room <= 0 or at_limit:
        return Agreement.UNDECIDED, None
    return Agreement.UNDECIDED, math.ceil(b.seconds * (theirs**2 - PROCESS_HALF_WIDTH**2) / room)


def _half_width(measured: Figures) -> float:
    """The wider half of an interval of the ratio's logarithm."""
    return max(math.log(measured.ratio / measured.ratio_low), math.log(measured.ratio_high / measured.ratio))


def keep(tree: Tree, reproduction: Reproduction) -> Path:
    """Append it to ``reproductions.jsonl`` beside the records of its iteration."""
    path = path_of(tree, reproduction.again)
    append(path, reproduction)
    return path


def path_of(tree: Tree, record: Judged) -> Path:
    return tree.records(*record.ladder).with_name("reproductions.jsonl")


def line(reproduction: Reproduction) -> str:
    if reproduction.quotient is None:
        return f"not reproduced: {reproduction.why}"
    assert reproduction.low is not None and reproduction.high is not None
    figures = (100 * (each - 1) for each in (reproduction.quotient, reproduction.low, reproduction.high))
    said = "{}: {:+.2f}% [{:+.2f}, {:+.2f}]".format(reproduction.verdict, *figures)
    if reproduction.verdict is not Agreement.UNDECIDED:
        return said
    if reproduction.again_sustained is not None:
        return f"{said}; the intervals at the power limit are too wide to decide"
    if reproduction.decides_s is None:
        return f"{said}; the record's own interval is too wide for any budget: bench it again with a larger --budget"
    return f"{said}; --budget {reproduction.decides_s:g} would decide"


def _wanted(record: Judged) -> tuple[str, str, str]:
    return record.source_sha256, record.families_sha256, record.environment.judge_sha256


def _hashes(root: Path, path: Path, record: Judged) -> tuple[str, str, str]:
    """Hashes of iteration, families and judge by the harness of a checkout; empty if that fails."""
    environment = os.environ | {"PYTHONPATH": Tree(root).python_path}
    operator = parse_shape_key(record.shape_key).operator
    command = [sys.executable, "-c", _HASHES, str(root), str(path), operator, record.gpu]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    words = done.stdout.split()
    return (words[0], words[1], words[2]) if len(words) == 3 else ("", "", "")


def _commit(tree: Tree, path: Path, record: Judged) -> str:
    """The newest commit with the record's iteration, families and judge, or else with the first two."""
    wanted = [tree.short(path), *DECIDING]
    commits = git(tree.root, "log", "--format=%H", "--", *wanted).decode().split()
    close: str | None = None
    seen: set[bytes] = set()
    for commit in commits:
        listed = git(tree.root, "ls-tree", "-r", commit, "--", *wanted)
        if listed in seen or tree.short(path).encode() not in listed:
            continue
        seen.add(listed)
        with revisions.checked_out(tree.root, commit) as root:
            hashes = _hashes(root, root / path.relative_to(tree.root), record)
        if hashes == _wanted(record):
            return commit
        if close is None and hashes[:2] == _wanted(record)[:2]:
            close = commit
    if close is None:
        raise UsageError(
            f"{record.iteration} as record {record.id} has it is neither in the working tree nor in git's history"
        )
    return close
