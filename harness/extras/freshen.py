"""Freshen: rows that are stale because a family changed, although their kernels did not.

A row's iteration is compiled with its families as they were, from git's history, and as they are. Where machine code,
launch and parameters are the same, a record says so, and the row is stale no longer. It needs no GPU.
"""

import hashlib
import io
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from harness.boards import leaderboard
from harness.boards.board import FAMILY, BoardRow
from harness.catalog.tree import Iteration, Selection, Tree
from harness.evidence import toolchain
from harness.extras.scratch_tree import linked_tree
from harness.extras.versus.compiling import BuildCompiler, BuildOrder, VersusBuild
from harness.extras.versus.environment import FOLDER, PythonEnvironment
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.hashes import FAMILIES, families_sha256, source_sha256
from harness.machine.git import git
from harness.machine.progress import Reporter
from harness.machine.repository import link
from harness.records.base import Status, identity
from harness.records.same_code import SameCode, alike
from harness.records.store import append, read
from harness.records.sustained import SustainedRecord

SAMPLES: Final = 2  # builds of each side


class Freshness(StrEnum):
    SAME = "same"
    DIFFERENT = "different"
    LOST = "lost"
    FAILED = "failed"


class FreshenedRow(msgspec.Struct, frozen=True):
    """A row that was stale. ``reason`` says why it stays so."""

    problem: str
    model: str
    iteration: str
    outcome: Freshness
    reason: str | None = None


@dataclass(frozen=True)
class StaleRow:
    """A measured row, its iteration, and the hash of the families that it was measured with."""

    iteration: Iteration
    before_sha256: str


@dataclass(frozen=True)
class Freshener:
    tree: Tree
    gpu: Gpu
    environment: PythonEnvironment
    deadline_s: float
    reporter: Reporter

    def freshen(self, waiting: list[StaleRow]) -> Iterator[FreshenedRow]:
        """Compile each row with both families, and record where nothing differs."""
        if not waiting:
            return
        commits = iter(git(self.tree.root, "log", "--format=%H", "--", FAMILIES).decode().split())  # the newest first
        while waiting and (commit := next(commits, None)):
            with self._as_of(commit) as then:
                held = [
                    each
                    for each in waiting
                    if families_sha256(then.root, self._path(then, each.iteration)) == each.before_sha256
                ]
                yield from self._compared([*held], then, commit)
            waiting = [each for each in waiting if each not in held]
        for each in waiting:
            yield _row(each, Freshness.LOST, "no commit has the families that it was measured with")

    def _compared(self, rows: list[StaleRow], then: Tree, commit: str) -> Iterator[FreshenedRow]:
        """Compile rows with both families; what differs is compiled again, since two builds may differ by chance."""
        codes = {each.iteration.key: (set[str](), set[str]()) for each in rows}
        for sample in range(1, SAMPLES + 1):
            old = self._built(then, [then.parse(self._path(then, each.iteration)) for each in rows], sample)
            new = self._built(self.tree, [each.iteration for each in rows], sample)
            for each in tuple(rows):
                key = each.iteration.key
                built = old[key], new[key]
                if failed := next((made for made in built if made.error), None):
                    when = "of then" if failed is built[0] else "of now"
                    yield _row(each, Freshness.FAILED, f"it does not build with the families {when}: {failed.error}")
                else:
                    for known, made in zip(codes[key], built, strict=True):
                        known.add(_code(made))
                    if not (common := set.intersection(*codes[key])):
                        continue
                    self._record(each, min(common), commit)
                    yield _row(each, Freshness.SAME)
                rows.remove(each)
        for each in rows:
            reason = f"in {SAMPLES} builds its code is not that of the families at {commit[:8]}"
            yield _row(each, Freshness.DIFFERENT, reason)

    def _built(
        self, tree: Tree, iterations: Iterable[Iteration], sample: int
    ) -> dict[tuple[str, str, str], VersusBuild]:
        orders = {each.key: BuildOrder(each, self.environment, sample) for each in iterations}
        compiler = BuildCompiler(tree, self.gpu, self.deadline_s, self.reporter)
        compiler.build(orders.values())
        return {key: compiler.made[order] for key, order in orders.items()}

    def _record(self, row: StaleRow, code_sha256: str, commit: str) -> None:
        nvcc = toolchain.find().nvcc
        record = SameCode(
            **identity(row.iteration),
            source_sha256=source_sha256(row.iteration.path),
            before_sha256=row.before_sha256,
            after_sha256=families_sha256(self.tree.root, row.iteration.path),
            code_sha256=code_sha256,
            commit=commit,
            arch=self.gpu.arch,
            nvcc=nvcc.version if nvcc else "",
            tilelang=self.environment.tilelang,
        )
        append(self.tree.same_code(row.iteration.gpu, row.iteration.shape_key, row.iteration.model), record)

    def _path(self, then: Tree, iteration: Iteration) -> Path:
        """Where an iteration of this tree lies in another."""
        return then.root / iteration.path.relative_to(self.tree.root)

    @contextmanager
    def _as_of(self, commit: str) -> Iterator[Tree]:
        """This tree with the families of a commit."""
        with linked_tree(self.tree, "freshen", without=FAMILIES) as then:
            for part in ("tuning", FOLDER.parts[0]):
                (self.tree.root / part).mkdir(exist_ok=True)
                link(self.tree.root / part, then.root / part)
            packed = git(self.tree.root, "archive", commit, FAMILIES)
            with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
                archive.extractall(then.root, filter="data")
            yield then


def stale_rows(tree: Tree, gpu: Gpu, selection: Selection, tilelang: str) -> list[StaleRow]:
    """The passed rows that only a change of their families left behind, and that this TileLang compiled.

    A row may be fresh while its figures at the power limit are of older families: they are here too.
    """
    boards, _ = leaderboard.boards(tree, gpu.key, selection)
    rows = (row for board in boards for row in board.rows if row.status == Status.PASSED)
    found = (each for row in rows if set(row.stale) <= {FAMILY} for each in _left_behind(tree, row, tilelang))
    return list(dict.fromkeys(found))  # boards of several environments may have the same row


def _left_behind(tree: Tree, row: BoardRow, tilelang: str) -> Iterator[StaleRow]:
    assert row.families_sha256 is not None and row.environment is not None
    if row.environment.tilelang != tilelang:
        return
    iteration = tree.parse(tree.source(row.gpu, row.problem, row.model, row.iteration))
    held, _ = read(tree.sustained(row.gpu, row.problem, row.model), SustainedRecord)
    ours = row.iteration, row.source_sha256, row.environment.judge_sha256, tilelang
    measured = [
        each.families_sha256
        for each in held
        if (each.iteration, each.source_sha256, each.environment.judge_sha256, each.environment.tilelang) == ours
    ]
    now = families_sha256(tree.root, iteration.path)
    known = alike(tree.same_code(row.gpu, row.problem, row.model), row.source_sha256, now, tilelang)
    for before in dict.fromkeys((row.families_sha256, *measured)):
        if before not in known:
            yield StaleRow(iteration, before)


def _code(build: VersusBuild) -> str:
    """A hash of the machine code and the launch."""
    return hashlib.sha256(repr((build.code_sha256, build.launch)).encode()).hexdigest()


def _row(row: StaleRow, outcome: Freshness, reason: str | None = None) -> FreshenedRow:
    return FreshenedRow(*row.iteration.key, outcome, reason)
