"""What a report shows: the leaderboard's rows, each with all that was recorded behind it; nothing is decided here."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

from harness.boards import leaderboard
from harness.boards.leaderboard import Board, BoardRow
from harness.catalog import gpus
from harness.catalog.tree import Iteration, Selection, Tree
from harness.errors import UsageError
from harness.extras.report.difference import Line, Setting, lines, settings
from harness.judge import builds
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem, parse_shape_key
from harness.records.base import Environment, Status
from harness.records.builds import Build, BuildRecord
from harness.records.profiles import ProfileRecord
from harness.records.profiles import newest as newest_profile
from harness.records.results import Record
from harness.records.store import read

LONGEST_SOURCE_BYTES: Final = 100_000


@dataclass(frozen=True)
class Entry:
    """One row of a leaderboard and what lies behind it; ``page`` is its address within the report.

    ``earlier`` are the iteration's other records, newest first. ``lines`` is the source as it lies in the tree, marked
    where it differs from the parent's.
    """

    page: str
    row: BoardRow
    iteration: Iteration
    record: Record | None
    build: Build | None
    profile: ProfileRecord | None
    earlier: tuple[Record, ...]
    settings: tuple[Setting, ...]
    lines: tuple[Line, ...]
    parent_page: str | None
    run_script: str | None

    @property
    def failed(self) -> bool:
        return self.row.status in (Status.FAILED, Status.REJECTED)

    @property
    def outcome(self) -> str:
        """``keep`` or ``discard`` for what was ranked, ``failed``, or ``unmeasured``."""
        if self.failed:
            return "failed"
        return (self.row.decision or "").lower() if self.row.ratio is not None else "unmeasured"


@dataclass(frozen=True, slots=True)
class Counts:
    """How many entries of each outcome; stale and unstable ones are among the others."""

    all: int
    keep: int
    discard: int
    failed: int
    unmeasured: int
    stale: int
    unstable: int

    @classmethod
    def of(cls, entries: Collection[Entry]) -> "Counts":
        outcomes = Counter(entry.outcome for entry in entries)
        return cls(
            all=len(entries),
            keep=outcomes["keep"],
            discard=outcomes["discard"],
            failed=outcomes["failed"],
            unmeasured=outcomes["unmeasured"],
            stale=sum(bool(entry.row.stale) for entry in entries),
            unstable=sum(entry.row.stable is False for entry in entries),
        )


@dataclass(frozen=True)
class Sheet:
    """A board with its entries, in the board's order."""

    board: Board
    entries: tuple[Entry, ...]

    @cached_property
    def ladder(self) -> tuple[Entry, ...]:
        """In the order of tuning."""
        return tuple(sorted(self.entries, key=lambda each: (each.row.model, each.iteration.number)))

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(entry.row.model for entry in self.ladder))


@dataclass(frozen=True)
class Shape:
    """A problem's sheets, the newest environment first, and the candidates that did not become kernels."""

    problem: Problem
    sheets: tuple[Sheet, ...]
    attempts: tuple[BuildRecord, ...]

    @property
    def page(self) -> str:
        return f"/{self.problem.shape_key}"

    @property
    def best(self) -> Entry | None:
        """The first row of the newest sheet, where anything is ranked there."""
        first = self.sheets[0].entries[0]
        return first if first.row.rank is not None else None

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(entry for sheet in self.sheets for entry in sheet.entries)

    @cached_property
    def newest(self) -> tuple[Entry, ...]:
        """Each iteration once, as the newest environment has it."""
        first: dict[tuple[str, str], Entry] = {}
        for entry in self.entries:
            first.setdefault((entry.row.model, entry.row.iteration), entry)
        return tuple(first.values())

    @cached_property
    def counts(self) -> Counts:
        return Counts.of(self.newest)


@dataclass(frozen=True)
class Report:
    """All problems of one GPU; ``complaints`` say what could not be read."""

    gpu: Gpu
    made_at: str
    shapes: tuple[Shape, ...]
    complaints: tuple[str, ...]

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(entry for shape in self.shapes for entry in shape.entries)

    @cached_property
    def newest(self) -> tuple[Entry, ...]:
        """Each iteration once, as the newest environment has it."""
        return tuple(entry for shape in self.shapes for entry in shape.newest)

    @cached_property
    def best_first(self) -> tuple[Shape, ...]:
        """Problems by the ratio of their best row; those without one last."""
        return tuple(sorted(self.shapes, key=lambda shape: -(_ratio(shape.best) or 0)))

    @cached_property
    def counts(self) -> Counts:
        return Counts.of(self.newest)

    @property
    def ahead(self) -> int:
        """Problems whose best row is a kernel that is certainly faster than the baseline."""
        return sum(shape.best.row.is_ahead for shape in self.shapes if shape.best)

    @property
    def environments(self) -> list[tuple[Environment, int]]:
        """By `rank_key`, each with how many entries it has; the commonest first."""
        found = [entry.record.environment for entry in self.entries if entry.record]
        by_key = {each.rank_key: each for each in found}
        return [(by_key[key], count) for key, count in Counter(each.rank_key for each in found).most_common()]

    @cached_property
    def failed(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.newest if entry.failed)

    @cached_property
    def stale(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.newest if entry.row.stale)


def gather(tree: Tree, gpu: str, selection: Selection) -> Report:
    """Everything under ``tuning/<gpu>`` that the selection takes; raises UsageError where that is nothing."""
    boards, complaints = leaderboard.boards(tree, gpu, selection)
    if not boards:
        raise UsageError(f"no iteration under tuning/{gpu}/ to report on; `tilebench new --gpu {gpu}` begins a ladder")
    by_problem: dict[str, list[Board]] = {}
    for board in boards:
        by_problem.setdefault(board.problem, []).append(board)
    return Report(
        gpu=gpus.find(gpu),
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        shapes=tuple(_Folder(tree, gpu, key).shape(of_one) for key, of_one in by_problem.items()),
        # a report travels: it says where in the checkout, not where on whose disk
        complaints=tuple(dict.fromkeys(each.replace(f"{tree.root}/", "") for each in complaints)),
    )


class _Folder:
    """The files of one problem, each read once."""

    def __init__(self, tree: Tree, gpu: str, shape_key: str) -> None:
        self.tree, self.gpu, self.shape_key = tree, gpu, shape_key
        found, _ = tree.scan(gpu, Selection(shape=shape_key))
        self.iterations = {(each.model, each.name): each for each in found}
        models = dict.fromkeys(model for model, _ in self.iterations)
        self.records = {model: read(tree.records(gpu, shape_key, model), Record)[0] for model in models}
        self.profiles = {model: read(tree.profiles(gpu, shape_key, model), ProfileRecord)[0] for model in models}
        self.builds = {model: read(tree.builds(gpu, shape_key, model), BuildRecord)[0] for model in models}
        self.sources = {each: _source(each) for each in found}

    def shape(self, boards: list[Board]) -> Shape:
        pages: dict[tuple[str, str], str] = {}
        for row in (row for board in boards for row in board.rows):
            pages.setdefault((row.model, row.iteration), f"/{self.shape_key}/{row.model}/{row.iteration}")
        taken: set[str] = set()
        sheets = []
        for board in boards:
            entries = []
            for row in board.rows:
                page = pages[row.model, row.iteration]
                if page in taken:  # the same iteration in an older environment
                    page = f"{page}@{row.record}"
                taken.add(page)
                entries.append(self._entry(page, row, pages))
            sheets.append(Sheet(board, tuple(entries)))
        models = {row.model for board in boards for row in board.rows}
        attempts = (each for model in models for each in self.builds[model] if each.attempt is not None)
        return Shape(
            parse_shape_key(self.shape_key),
            tuple(sheets),
            tuple(sorted(attempts, key=lambda each: each.recorded_at, reverse=True)),
        )

    def _entry(self, page: str, row: BoardRow, pages: dict[tuple[str, str], str]) -> Entry:
        iteration = self.iterations[row.model, row.iteration]
        mine = [each for each in reversed(self.records[row.model]) if each.iteration == row.iteration]
        record = next((each for each in mine if each.id == row.record), None) if row.record else None
        parent = self.iterations.get((row.model, row.parent or ""))
        script = self.tree.script("run", iteration)
        return Entry(
            page=page,
            row=row,
            iteration=iteration,
            record=record,
            build=builds.evidence(self.tree, record) if record else None,
            profile=self._profile(row, record),
            earlier=tuple(each for each in mine if each is not record),
            settings=settings(row.config, self._config(row.model, parent)),
            lines=lines(self.sources[iteration], self.sources[parent] if parent else None),
            parent_page=pages.get((row.model, row.parent or "")),
            run_script=self.tree.short(script) if script.is_file() else None,
        )

    def _profile(self, row: BoardRow, record: Record | None) -> ProfileRecord | None:
        """That of the record's source; where none read counters, the newest that says why."""
        if record is None:
            return None
        of_source = [
            each
            for each in self.profiles[row.model]
            if (each.iteration, each.source_sha256, each.families_sha256)
            == (row.iteration, record.source_sha256, record.families_sha256)
        ]
        counted = newest_profile(of_source, row.iteration, record.source_sha256, record.families_sha256)
        return counted or max(of_source, key=lambda each: each.recorded_at, default=None)

    def _config(self, model: str, parent: Iteration | None) -> str | None:
        if parent is None:
            return None
        return next((each.config for each in reversed(self.records[model]) if each.iteration == parent.name), None)


def _source(iteration: Iteration) -> str:
    content = iteration.path.read_bytes()
    if len(content) > LONGEST_SOURCE_BYTES:
        return f"# {len(content):,} bytes, too long to show: {iteration.path.name}"
    return content.decode(errors="replace")


def _ratio(entry: Entry | None) -> float | None:
    return entry.row.ratio if entry else None
