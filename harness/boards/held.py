"""What the files of one problem hold, read once for its boards."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec

from harness.boards.board import CHANGES, FAMILY, BoardRow, same_code
from harness.catalog import gpus
from harness.catalog.tree import OPPONENTS_MODEL, Iteration, Tree
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.hashes import Amendment, amendment, judge_sha256
from harness.judge.facts.problem import Problem
from harness.records.base import Cause, Status
from harness.records.pairs import PairRecord
from harness.records.playoffs import PlayOff
from harness.records.profiles import ProfileRecord, newest
from harness.records.results import Record
from harness.records.same_code import alike
from harness.records.store import read
from harness.records.sustained import SustainedRecord

R = TypeVar("R", bound=msgspec.Struct)
Tried = list[tuple[Iteration, list[Record]]]  # iterations, each with its records
Outcome = Record | SustainedRecord | PairRecord


@dataclass(slots=True)
class Held:
    """One problem's iterations and records, which are in the order of their file.

    But of ``tried`` the records of the present code come last: an edit that is undone has its figure again.
    """

    tree: Tree
    gpu: Gpu
    problem: Problem
    complaints: list[str]  # about lines that cannot be read
    tried: Tried = field(default_factory=list)
    unmeasured: list[Iteration] = field(default_factory=list)
    bounds: dict[tuple[str, str, str], str] = field(default_factory=dict)  # by the profiles of the present sources
    sustained: list[SustainedRecord] = field(default_factory=list)
    opponents: list[Record] = field(default_factory=list)
    pairs: list[PairRecord] = field(default_factory=list)
    play_offs: list[PlayOff] = field(default_factory=list)
    wrong: list[Outcome] = field(default_factory=list)  # what was rejected for a wrong result
    _now: dict[Iteration, tuple[str, str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, tree: Tree, gpu: str, iterations: list[Iteration], complaints: list[str]) -> "Held":
        """What the files hold of one problem's iterations, which are at least one."""
        problem, shape_key = iterations[0].problem, iterations[0].shape_key
        held = cls(tree, gpus.find(gpu), problem, complaints)
        for model in dict.fromkeys(each.model for each in iterations):
            held._add([each for each in iterations if each.model == model])
        held.opponents = held._read(tree.opponents(gpu, shape_key), Record)
        held.sustained += held._read(tree.sustained(gpu, shape_key, OPPONENTS_MODEL), SustainedRecord)
        held.pairs = held._read(tree.pairs(gpu, shape_key), PairRecord)
        held._add_wrong(held.pairs)
        held.play_offs = held._read(tree.play_offs(gpu, shape_key), PlayOff)
        return held

    def same_code(self, row: BoardRow, record: Outcome) -> bool:
        """Whether a record has the name and code of a row, and its judge and environment."""
        if row.environment is None or row.key != record.key:
            return False
        ours, theirs = ((each.rank_key, each.judge_sha256) for each in (row.environment, record.environment))
        return ours == theirs and same_code(self.tree, row, record, record.environment.tilelang)

    def stale(self, iteration: Iteration, record: Record) -> tuple[str, ...]:
        """What has changed since the record was made: source, family, judge."""
        now = self._hashes(iteration)
        then = (record.source_sha256, record.families_sha256, record.environment.judge_sha256)
        changed = tuple(name for name, ours, its in zip(CHANGES, now, then, strict=True) if ours != its)
        if FAMILY not in changed:
            return changed
        path = self.tree.same_code(*iteration.ladder)
        code = alike(path, record.source_sha256, record.families_sha256, record.environment.tilelang)
        return tuple(name for name in changed if name != FAMILY or now[1] not in code)

    def passed_since(self, row: BoardRow, recorded_at: str) -> bool:
        """Whether the code of a row has passed at that time or later, on any chip."""
        records = (record for iteration, own in self.tried if iteration.key == row.key for record in own)
        passed = (each for each in records if each.status is Status.PASSED and each.recorded_at >= recorded_at)
        return any(self.same_code(row, each) for each in passed)

    def _add(self, ladder: list[Iteration]) -> None:
        place = self.gpu.key, self.problem.shape_key, ladder[0].model
        records = self._read(self.tree.records(*place), Record)
        sustained = self._read(self.tree.sustained(*place), SustainedRecord)
        profiles = self._read(self.tree.profiles(*place), ProfileRecord)
        for iteration in ladder:
            own = [record for record in records if record.iteration == iteration.name]
            if own:
                self.tried.append((iteration, sorted(own, key=lambda record: not self.stale(iteration, record))))
            else:
                self.unmeasured.append(iteration)
            profile = newest(profiles, iteration.name, *self._hashes(iteration)[:2]) if profiles else None
            if profile is not None and profile.bound is not None:
                self.bounds[iteration.key] = profile.bound.value
        self.sustained += sustained
        self._add_wrong((*records, *sustained))

    def _hashes(self, iteration: Iteration) -> tuple[str, str, str]:
        """Those of source, families and judge, each computed once."""
        if (found := self._now.get(iteration)) is None:
            judge = judge_sha256(self.tree.root, iteration.problem.operator, self.gpu)
            found = self._now[iteration] = (*self.tree.hashes(iteration), judge)
        return found

    def _add_wrong(self, records: Iterable[Outcome]) -> None:
        self.wrong += (each for each in records if each.cause is Cause.WRONG_RESULT and not _blames_its_opponent(each))

    def _read(self, path: Path, kind: type[R]) -> list[R]:
        records, problems = read(path, kind)
        self.complaints += problems
        amended = amendment(self.tree.root)
        return [_by_the_judge(each, amended) for each in records]


def _by_the_judge(record: R, amended: Amendment) -> R:
    """The record; one that was made before its judge was amended gets the hash that the amended judge keeps."""
    environment = getattr(record, "environment", None)
    if environment is None or (kept := amended.kept(environment.judge_sha256)) == environment.judge_sha256:
        return record
    return msgspec.structs.replace(record, environment=msgspec.structs.replace(environment, judge_sha256=kept))


def _blames_its_opponent(record: Outcome) -> bool:
    """Whether what stood in the library's place was wrong, which says nothing of the iteration."""
    opponent = getattr(record, "opponent", None)
    return opponent is not None and f"opponent {opponent} is wrong" in (record.reason or "")
