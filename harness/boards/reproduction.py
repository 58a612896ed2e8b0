"""Reproduction: an iteration measured again with its recorded code, and compared with its record."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from harness.boards import comparison, revisions
from harness.catalog.gpus import find
from harness.catalog.tree import Tree
from harness.errors import InfrastructureError, UsageError
from harness.judge.facts.device_rules import rules_of
from harness.judge.facts.hashes import BASELINES, FAMILIES, JUDGE, OPERATORS
from harness.machine import files
from harness.records.base import SCHEMA, BaseRecord, now
from harness.records.environment import CONTENTS
from harness.records.results import Record
from harness.records.store import append, read

PARTS: Final = ("harness", "kernels", "baselines")
# What may have decided a record, now and in older commits.
DECIDING: Final = (
    FAMILIES, OPERATORS, BASELINES, JUDGE, "harness/catalog/gpus.toml",
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


class Reproduction(BaseRecord, frozen=True):
    """A record measured again. ``agrees`` if the quotient's interval holds 1; ``source`` says where the code was."""

    original: str
    source: str
    again: Record
    differences: tuple[str, ...]
    agrees: bool
    quotient: float | None = None
    low: float | None = None
    high: float | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class RecordedCode:
    """A record, and a checkout with its code."""

    record: Record
    root: Path
    source: str


def find_record(tree: Tree, named: str) -> Record:
    """The record of an id or its beginning, or the last measurement of a file. Raises UsageError."""
    path = Path(named)
    if path.is_file():
        records = [each for each in read(path, Record)[0] if each.measurement is not None]
        if not records:
            raise UsageError(f"{path} holds no record of a measurement")
        return records[-1]
    files = sorted((tree.root / "tuning").glob("*/tilelang/logs/*/*/results.jsonl"))
    found = {each.id: each for file in files for each in read(file, Record)[0] if each.id.startswith(named)}
    if not found or not named:
        raise UsageError(f"no record's id begins with '{named}'; the leaderboard's --json and export show them")
    if len(found) > 1:
        names = ", ".join(f"{each.id} ({each.iteration})" for each in list(found.values())[:4])
        raise UsageError(f"'{named}' begins several ids: {names}")
    (record,) = found.values()
    if record.measurement is None:
        raise UsageError(f"record {record.id} holds no measurement: it is {record.status} at {record.stage}")
    return record


@contextmanager
def as_recorded(tree: Tree, record: Record) -> Iterator[RecordedCode]:
    """A scratch checkout with the recorded iteration, families and judge, without records."""
    path = tree.sources(record.gpu, record.shape_key, record.model) / f"{record.iteration}.py"
    if path.is_file() and _hashes(tree.root, path, record) == _wanted(record):
        with files.scratch("reproduce") as root:
            for part in PARTS:
                shutil.copytree(tree.root / part, root / part, ignore=shutil.ignore_patterns("__pycache__"))
            shutil.copytree(path.parent, root / path.parent.relative_to(tree.root))
            yield RecordedCode(record, root, "the working tree")
        return
    commit = _commit(tree, path, record)
    with revisions.checked_out(tree.root, commit) as root:
        shutil.rmtree(Tree(root).folder(record.gpu) / "logs", ignore_errors=True)
        yield RecordedCode(record, root, f"commit {commit[:10]}")


def again(found: RecordedCode, *, in_image: bool) -> Record:
    """Measure it again by its own harness, with its budget. Its messages go to stderr."""
    record = found.record
    assert record.measurement is not None
    budget_s = max(rules_of(find(record.gpu)).budget_s, round(record.measurement.seconds + 0.5))
    verb = [
        *("bench", "--gpu", record.gpu, "--shape", record.shape_key, "--model", record.model),
        *("--iter", str(record.number), "--budget", f"{budget_s:g}", "--json"),
    ]
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
        records = [msgspec.convert(each, Record) for each in said.get("data", said)["records"]]
    except (ValueError, KeyError, TypeError, msgspec.MsgspecError):
        raise InfrastructureError(f"measuring again gave no record (exit code {done.returncode}); see above") from None
    return next(each for each in records if each.iteration == record.iteration)


def judge(found: RecordedCode, measured: Record) -> Reproduction:
    """Compare the two; they agree if their quotient's interval holds 1."""
    compared = comparison.compare(found.record, measured)
    return Reproduction(
        schema=SCHEMA,
        recorded_at=now(),
        original=found.record.id,
        source=found.source,
        again=measured,
        differences=comparison.differences(found.record, measured),
        agrees=compared.low is not None and compared.high is not None and compared.low <= 1 <= compared.high,
        quotient=compared.quotient,
        low=compared.low,
        high=compared.high,
        why=compared.why,
    )


def keep(tree: Tree, reproduction: Reproduction) -> Path:
    """Append it to ``reproductions.jsonl`` beside the records of its iteration."""
    record = reproduction.again
    path = tree.records(record.gpu, record.shape_key, record.model).with_name("reproductions.jsonl")
    append(path, reproduction)
    return path


def line(reproduction: Reproduction) -> str:
    """The verdict for a person."""
    if reproduction.quotient is None:
        return f"not reproduced: {reproduction.why}"
    change = f"{100 * (reproduction.quotient - 1):+.2f}% [{reproduction.low:.4f}, {reproduction.high:.4f}]"
    return f"{'agrees' if reproduction.agrees else 'DIFFERS'}: {change}"


def _wanted(record: Record) -> tuple[str, str, str]:
    return record.source_sha256, record.families_sha256, record.environment.judge_sha256


def _hashes(root: Path, path: Path, record: Record) -> tuple[str, str, str]:
    """Hashes of iteration, families and judge by the harness of a checkout; empty if that fails."""
    environment = os.environ | {"PYTHONPATH": Tree(root).python_path}
    command = [sys.executable, "-c", _HASHES, str(root), str(path), record.shape_key.partition("_")[0], record.gpu]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    words = done.stdout.split()
    return (words[0], words[1], words[2]) if len(words) == 3 else ("", "", "")


def _commit(tree: Tree, path: Path, record: Record) -> str:
    """The newest commit with the record's iteration, families and judge, or else with the first two."""
    wanted = [tree.short(path), *DECIDING]
    commits = revisions.git(tree.root, "log", "--format=%H", "--", *wanted).decode().split()
    close: str | None = None
    seen: set[bytes] = set()
    for commit in commits:
        listed = revisions.git(tree.root, "ls-tree", "-r", commit, "--", *wanted)
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
