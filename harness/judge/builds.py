"""Recorded builds: which compilation a record answers, and how often an iteration may still fail to compile."""

from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from harness.catalog.tree import Iteration, Tree
from harness.evidence import toolchain
from harness.evidence.evidence import ANALYSIS
from harness.judge.candidate import Candidate, Rejection
from harness.judge.verdicts import verdict
from harness.records.base import Cause, Stage, Status, identity
from harness.records.builds import Build, BuildRecord
from harness.records.results import Record
from harness.records.store import append_made, read

# Failures that the same source repeats. A timeout, a crash or a missing module may be the machine's fault.
REPEATABLE: Final = (Cause.COMPILE, Cause.DOES_NOT_FIT)
# Failures that use up one attempt of the iteration's number.
ATTEMPT: Final = (*REPEATABLE, Cause.LOAD, Cause.TIMEOUT, Cause.CRASH, Cause.OUT_OF_MEMORY, Cause.OUT_OF_DISK)


def known(candidate: Candidate) -> BuildRecord | None:
    """The newest record of the same source, architecture and compilers, if a build would repeat it."""
    key = _key(candidate)
    again, _ = read(_rebuilds(Tree(candidate.root), candidate.iteration), BuildRecord)
    newest = next((each for each in reversed((*_history(candidate), *again)) if _same(each, key)), None)
    if newest is None or newest.status is Status.PASSED:
        return newest
    repeats = newest.cause in REPEATABLE and newest.judge_sha256 == candidate.judge_sha256
    return newest if repeats else None


def traced(candidate: Candidate, binding: Iteration) -> str | None:
    """The hash of the program in a binding's newest record of the same source and compilers; None without a record.

    It is empty where the record has no hash, as that of a program without dynamic dimensions.
    """
    recorded, key = read(_path(Tree(candidate.root), binding), BuildRecord)[0], _key(candidate)
    passed = (each.build for each in reversed(recorded) if each.status is Status.PASSED and _same(each, key))
    return next((each.traced_sha256 or "" for each in passed if each is not None), None)


def refuse_exhausted(candidate: Candidate) -> None:
    """Raise Rejection if the iteration has used up its attempts and this source would be one more."""
    most = candidate.settings.attempts
    source = (candidate.source_sha256, candidate.families_sha256)
    failed = failed_sources(_history(candidate), candidate.iteration.number)
    if len(failed) >= most and source not in failed:
        name = candidate.iteration.ordinal
        raise Rejection(
            Cause.ATTEMPTS,
            f"{len(failed)} sources of {name} failed to compile since one last did, and {most} may; "
            f"begin another idea under the next number, or allow more with --attempts {len(failed) + 1}",
        )


def evidence(tree: Tree, record: Record) -> Build | None:
    """The build behind a record: its own, else one of the same source from elsewhere."""
    if record.build is None or record.build.kernels is not None or record.build.generated_sha256 is None:
        return record.build
    source = (record.source_sha256, record.families_sha256)
    recorded, _ = read(tree.builds(*record.ladder), BuildRecord)
    same = (each.build for each in reversed(recorded) if (each.source_sha256, each.families_sha256) == source)
    return next((build for build in same if build is not None), record.build)


def keep(tree: Tree, candidate: Candidate, rejection: Rejection | None) -> tuple[Rejection | None, str | None]:
    """Record a new build. A failed build becomes an attempt: its name, and a reason that says how many are left.

    A kernel that fails to compile at its first call is a failed build too.
    """
    if candidate.stage is Stage.CONTRACT:
        return rejection, None
    building = candidate.stage is Stage.BUILD
    made = candidate.recorded_build
    if rejection is None or rejection.cause not in (ATTEMPT if building else (Cause.COMPILE,)):
        if made is None and (rejection is None or not building):
            _record(tree, candidate, None)
        return rejection, None
    if made is None or not building:
        made = _record(tree, candidate, rejection)
    failed = failed_sources(_history(candidate), candidate.iteration.number)
    left, most = max(0, candidate.settings.attempts - len(failed)), candidate.settings.attempts
    told = f"{rejection.reason} ({made.attempt}; {left} of {most} attempts left for {candidate.iteration.ordinal})"
    return Rejection(rejection.cause, told, rejection.traceback), made.attempt


def _record(tree: Tree, candidate: Candidate, rejection: Rejection | None) -> BuildRecord:
    """Append the record. Known code that was only built is no news, and goes to a file that git ignores."""
    iteration = candidate.iteration
    repeats = rejection is None and not candidate.launches and _holds_code(candidate)
    path = (_rebuilds if repeats else _path)(tree, iteration)

    def make() -> BuildRecord:
        taken = sum(each.attempt is not None for each in read(path, BuildRecord)[0])
        return BuildRecord(
            **identity(iteration),
            **verdict(rejection),
            attempt=f"attempt{taken + 1:04d}" if rejection else None,
            judge_sha256=candidate.judge_sha256,
            build=candidate.build,
            traceback=rejection.traceback if rejection else None,
            **_key(candidate),
        )

    return append_made(path, make)


def failed_sources(history: Iterable[BuildRecord], number: int) -> set[tuple[str, str]]:
    """The sources under an iteration's number that failed since the last one that compiled."""
    failed: set[tuple[str, str]] = set()
    for each in history:
        if each.number != number:
            continue
        if each.attempt is not None:
            failed.add((each.source_sha256, each.families_sha256))
        elif each.status is Status.PASSED:
            failed.clear()
    return failed


def _holds_code(candidate: Candidate) -> bool:
    """Whether the same compilers gave the same code for this iteration before.

    TileLang's generated text differs from build to build, so that of a GPU's kernel is told by its evidence too.
    """
    made = candidate.build
    key = {name: value for name, value in _key(candidate).items() if not name.endswith("_sha256")}
    known = (
        each.build for each in _history(candidate) if each.number == candidate.iteration.number and _same(each, key)
    )
    return made is not None and any(
        each.generated_sha256 == made.generated_sha256
        or (each.kernels is not None and (each.kernels, each.warnings) == (made.kernels, made.warnings))
        for each in filter(None, known)
    )


def _history(candidate: Candidate) -> list[BuildRecord]:
    return read(_path(Tree(candidate.root), candidate.iteration), BuildRecord)[0]


def _path(tree: Tree, iteration: Iteration) -> Path:
    return tree.builds(*iteration.ladder)


def _rebuilds(tree: Tree, iteration: Iteration) -> Path:
    return tree.rebuilds(*iteration.ladder)


def _key(candidate: Candidate) -> dict[str, Any]:
    """Everything that decides the outcome of a build."""
    tools = toolchain.find()
    cpu = candidate.gpu.is_cpu
    return {
        "source_sha256": candidate.source_sha256,
        "families_sha256": candidate.families_sha256,
        "arch": candidate.gpu.arch,
        "nvcc": "" if cpu or tools.nvcc is None else tools.nvcc.version,
        "disassembler": "" if cpu or tools.cuobjdump is None else tools.cuobjdump.version,
        "tilelang": _tilelang(),
        "analysis": ANALYSIS,
    }


def _same(record: BuildRecord, key: dict[str, Any]) -> bool:
    """Whether a record answers this key. Counted instructions do not depend on which disassembler counted them."""
    counted = bool(record.disassembler) or not key["disassembler"]
    return counted and all(getattr(record, name) == value for name, value in key.items() if name != "disassembler")


@cache
def _tilelang() -> str:
    return version("tilelang")
