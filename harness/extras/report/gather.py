"""What a report shows: the rows of the leaderboard with the records behind them. Nothing is decided here."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from statistics import geometric_mean
from typing import Final

from harness.boards import leaderboard, tables
from harness.boards.board import Board, BoardRow
from harness.boards.rivals import Rivalry, rivalry
from harness.catalog import gpus
from harness.catalog.tree import Iteration, Selection, Tree
from harness.errors import UsageError
from harness.extras.report.difference import Setting, SourceLine, lines, settings
from harness.extras.versus.history import Upgrade, upgrades
from harness.judge import builds
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem, parse_shape_key
from harness.judge.limits import worst
from harness.records.base import Environment, Regime, Status, of_code
from harness.records.builds import Build, BuildRecord
from harness.records.ceilings import CeilingRecord
from harness.records.profiles import ProfileRecord, newest
from harness.records.results import Measurement, Record, Trial
from harness.records.store import read
from harness.records.throughput import GFLOPS, TFLOPS, Throughput, throughput
from harness.records.versus import VersusRecord

LONGEST_SOURCE_BYTES: Final = 100_000


@dataclass(frozen=True)
class ReportEntry:
    """One row of a leaderboard and the records behind it. ``page`` is its address within the report.

    ``earlier`` are the iteration's other records, newest first. ``lines`` is the source in the tree, with marks where
    it differs from its parent.
    """

    page: str
    row: BoardRow
    iteration: Iteration
    record: Record | None
    build: Build | None
    profile: ProfileRecord | None
    earlier: tuple[Record, ...]
    settings: tuple[Setting, ...]
    lines: tuple[SourceLine, ...]
    parent_page: str | None
    run_script: str | None

    @property
    def measured(self) -> Measurement | None:
        return self.record.measurement if self.record else None

    @property
    def worst(self) -> Trial | None:
        return worst(self.record.verification) if self.record and self.record.verification else None

    @property
    def failed(self) -> bool:
        return self.row.status in (Status.FAILED, Status.REJECTED)

    @property
    def outcome(self) -> str:
        """``keep`` or ``discard`` if it was ranked, else ``failed`` or ``unmeasured``."""
        if self.failed:
            return "failed"
        return (self.row.decision or "").lower() if self.row.ratio is not None else "unmeasured"


def tally(entries: Iterable[ReportEntry]) -> Counter[str]:
    """The number of entries: all, of each outcome, stale, and unstable."""
    found = Counter[str]()
    for entry in entries:
        found.update(("all", entry.outcome))
        found["stale"] += bool(entry.row.stale)
        found["unstable"] += entry.row.unstable
    return found


@dataclass(frozen=True)
class Sheet:
    """A board with its entries, in the board's order."""

    board: Board
    entries: tuple[ReportEntry, ...]

    @cached_property
    def ladder(self) -> tuple[ReportEntry, ...]:
        """The entries in the order of tuning."""
        return tuple(sorted(self.entries, key=lambda each: (each.row.model, each.iteration.number)))


@dataclass(frozen=True)
class Shape:
    """A problem's sheets, the newest environment first, and the candidates that did not become kernels."""

    problem: Problem
    gpu: Gpu
    sheets: tuple[Sheet, ...]
    attempts: tuple[BuildRecord, ...]

    @property
    def page(self) -> str:
        return f"/{self.problem.shape_key}"

    @cached_property
    def _of_1_ms(self) -> Throughput:
        """The throughput of a launch of 1 ms: GB/s, or TFLOPS, of a CPU GFLOPS."""
        figure, unit = throughput(self.problem, self.gpu, 1.0)
        return Throughput(1e3 * figure, GFLOPS) if self.gpu.is_cpu and unit == TFLOPS else Throughput(figure, unit)

    @property
    def unit(self) -> str:
        return self._of_1_ms.unit

    def throughput(self, time_ms: float | None) -> float | None:
        """The throughput of a launch, in ``unit``."""
        return self._of_1_ms.figure / time_ms or None if time_ms and time_ms > 0 else None

    @property
    def best(self) -> ReportEntry | None:
        """The first row of the newest sheet, if anything is ranked there."""
        first = self.sheets[0].entries[0]
        return first if first.row.rank is not None else None

    @property
    def sustained_leader(self) -> ReportEntry | None:
        """The entry that leads at the power limit where another than the best does."""
        leader = self.sheets[0].board.sustained_leader
        return next((each for each in self.sheets[0].entries if leader is not None and each.row == leader), None)

    @cached_property
    def rivals(self) -> tuple[Rivalry | None, Rivalry | None]:
        """The leader against the strongest opponent, at equal clocks and at the power limit."""
        board = self.sheets[0].board
        return rivalry(board), rivalry(board, Regime.SUSTAINED)

    @property
    def competes(self) -> bool:
        """False for a lone copy, which only shows how fast memory is."""
        return any(sheet.board.competes for sheet in self.sheets)

    @cached_property
    def entries(self) -> tuple[ReportEntry, ...]:
        return tuple(entry for sheet in self.sheets for entry in sheet.entries)

    @cached_property
    def newest(self) -> tuple[ReportEntry, ...]:
        """Each iteration once, from its newest environment."""
        first: dict[tuple[str, str], ReportEntry] = {}
        for entry in self.entries:
            first.setdefault((entry.row.model, entry.row.iteration), entry)
        return tuple(first.values())


@dataclass(frozen=True, slots=True)
class OperatorRatios:
    """The best ratios of an operator's problems: their number, geometric mean, ends, and how many are ahead.

    ``beside``, ``vs_best`` and ``sustained`` are the means on another GPU, against the strongest kernel, and at the
    power limit. Each is over those of the problems that have such a figure.
    """

    operator: str
    problems: int
    mean: float
    low: float
    high: float
    ahead: int
    beside: float | None
    vs_best: float | None
    sustained: float | None

    @classmethod
    def of(cls, operator: str, shapes: list[Shape], beside: Mapping[str, BoardRow]) -> "OperatorRatios":
        rows = [shape.best.row for shape in shapes if shape.best]
        ratios = [row.ratio for row in rows if row.ratio]
        ahead = sum(row.is_ahead for row in rows)
        there = [other.ratio for row in rows if (other := beside.get(row.problem)) and other.ratio]
        rivals = [found.to_strongest for shape in shapes if (found := shape.rivals[0])]
        firsts = (shape.sheets[0].board.first_at_limit for shape in shapes)
        alone = [row.sustained_ratio for row in firsts if row and row.sustained_ratio]
        means = (geometric_mean(each) if each else None for each in (there, rivals, alone))
        return cls(operator, len(ratios), geometric_mean(ratios), min(ratios), max(ratios), ahead, *means)


@dataclass(frozen=True)
class Report:
    """All problems of one GPU; ``complaints`` say what could not be read.

    ``leaders_beside`` are the leaders of the same problems on the GPU key ``beside``, by problem. ``upgrades`` are the
    measurements of two environments against each other.
    """

    gpu: Gpu
    made_at: str
    shapes: tuple[Shape, ...]
    complaints: tuple[str, ...]
    ceilings: tuple[CeilingRecord, ...] = ()
    beside: str | None = None
    leaders_beside: Mapping[str, BoardRow] = field(default_factory=dict)
    upgrades: tuple[Upgrade, ...] = ()

    @property
    def pages(self) -> set[str]:
        return {shape.problem.shape_key for shape in self.shapes}

    @cached_property
    def entries(self) -> tuple[ReportEntry, ...]:
        return tuple(entry for shape in self.shapes for entry in shape.entries)

    @cached_property
    def newest(self) -> tuple[ReportEntry, ...]:
        """Each iteration once, from its newest environment."""
        return tuple(entry for shape in self.shapes for entry in shape.newest)

    @cached_property
    def best_first(self) -> tuple[Shape, ...]:
        """Problems by the ratio of their best row, those without one last; no lone copy where others are."""
        shown = [shape for shape in self.shapes if shape.competes] or self.shapes
        return tuple(sorted(shown, key=lambda shape: -((shape.best and shape.best.row.ratio) or 0)))

    @property
    def copies(self) -> list[Shape]:
        """The lone copies."""
        return [shape for shape in self.shapes if shape not in self.best_first]

    @cached_property
    def operators(self) -> tuple[OperatorRatios, ...]:
        """The ratios of each operator's problems, the largest mean first."""
        by_operator: dict[str, list[Shape]] = {}
        for shape in self.shapes:
            if shape.competes and shape.best and shape.best.row.ratio:
                by_operator.setdefault(shape.problem.operator, []).append(shape)
        found = [OperatorRatios.of(operator, shapes, self.leaders_beside) for operator, shapes in by_operator.items()]
        return tuple(sorted(found, key=lambda each: -each.mean))

    @property
    def units(self) -> list[str]:
        return sorted({shape.unit for shape in self.shapes}, reverse=True)

    @property
    def at_limit(self) -> bool:
        """Whether a problem has a figure at the power limit."""
        return any(shape.sheets[0].board.at_limit for shape in self.shapes)

    @property
    def opposed(self) -> bool:
        """Whether a problem has an opponent."""
        return any(shape.rivals[0] for shape in self.shapes)

    @property
    def opposed_at_limit(self) -> bool:
        """Whether one has a figure at the power limit."""
        return any(shape.rivals[1] for shape in self.shapes)

    @property
    def opponents_ahead(self) -> list[tuple[Shape, Rivalry, str]]:
        """Where an opponent is certainly faster than the leader: the problem, both, and the regime in words."""
        return [
            (shape, found, words)
            for shape in self.best_first
            for found, words in zip(shape.rivals, ("at equal clocks", "at the power limit"), strict=True)
            if found and found.opponent_leads
        ]

    @property
    def ahead(self) -> int:
        """Problems that a kernel leads and is certainly faster than the baseline."""
        return sum(shape.best.row.is_ahead for shape in self.shapes if shape.best)

    @property
    def environments(self) -> list[tuple[Environment, int]]:
        """One environment for each ``rank_key``, with its number of entries; the commonest first."""
        found = [entry.record.environment for entry in self.entries if entry.record]
        by_key = {each.rank_key: each for each in found}
        return [(by_key[key], number) for key, number in Counter(each.rank_key for each in found).most_common()]


def _boards_of(tree: Tree, gpu: str, beside: str) -> tuple[list[Board], list[str]]:
    """The boards to stand beside those of a GPU key. Raises UsageError without any."""
    key = gpus.find(beside, auto=False).key
    if key == gpu:
        raise UsageError(f"--beside {key} is the page's own GPU; name another")
    boards, complaints = leaderboard.boards(tree, key, Selection())
    if not boards:
        raise UsageError(f"no iteration under tuning/{key}/ to show beside {gpu}")
    return boards, complaints


def gather(tree: Tree, gpu: str, selection: Selection, beside: str | None = None) -> Report:
    """All that the selection takes under ``tuning/<gpu>``. Raises UsageError if that is nothing."""
    others, more = _boards_of(tree, gpu, beside) if beside else ([], [])
    boards, complaints = leaderboard.boards(tree, gpu, selection)
    if not boards:
        raise UsageError(tables.no_iteration(tree, gpu, selection))
    by_problem: dict[str, list[Board]] = {}
    for board in boards:
        by_problem.setdefault(board.problem, []).append(board)
    facts = gpus.find(gpu)
    iterations: dict[str, list[Iteration]] = {}
    for each in tree.scan(gpu, Selection())[0]:
        iterations.setdefault(each.shape_key, []).append(each)
    paired = [record for problem in by_problem for record in read(tree.versus(gpu, problem), VersusRecord)[0]]
    return Report(
        gpu=facts,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        shapes=tuple(
            _Folder(tree, facts, key, iterations.get(key, [])).shape(of_one) for key, of_one in by_problem.items()
        ),
        # A report travels: it names places in the checkout, not on a disk.
        complaints=tuple(dict.fromkeys(each.replace(f"{tree.root}/", "") for each in [*complaints, *more])),
        ceilings=tuple(read(tree.ceilings(gpu), CeilingRecord)[0]),
        beside=beside,
        leaders_beside={board.problem: board.leader for board in reversed(others) if board.leader},
        upgrades=tuple(upgrades(paired)),
    )


class _Folder:
    """The files of one problem, each read once."""

    def __init__(self, tree: Tree, gpu: Gpu, shape_key: str, found: list[Iteration]) -> None:
        self.tree, self.gpu, self.shape_key = tree, gpu, shape_key
        self.iterations = {(each.model, each.name): each for each in found}
        models = dict.fromkeys(model for model, _ in self.iterations)
        self.records = {model: read(tree.records(gpu.key, shape_key, model), Record)[0] for model in models}
        self.profiles = {model: read(tree.profiles(gpu.key, shape_key, model), ProfileRecord)[0] for model in models}
        self.builds = {model: read(tree.builds(gpu.key, shape_key, model), BuildRecord)[0] for model in models}
        self.sources = {each: _source(each) for each in found}

    def shape(self, boards: list[Board]) -> Shape:
        rows = [row for board in boards for row in board.rows]
        pages = {(row.model, row.iteration): f"/{self.shape_key}/{row.model}/{row.iteration}" for row in rows}
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
        models = {row.model for row in rows}
        attempts = [each for model in models for each in self.builds[model] if each.attempt is not None]
        attempts.sort(key=lambda each: each.recorded_at, reverse=True)
        return Shape(parse_shape_key(self.shape_key), self.gpu, tuple(sheets), tuple(attempts))

    def _entry(self, page: str, row: BoardRow, pages: dict[tuple[str, str], str]) -> ReportEntry:
        iteration = self.iterations[row.model, row.iteration]
        own = [each for each in reversed(self.records[row.model]) if each.iteration == row.iteration]
        record = next((each for each in own if each.id == row.record), None) if row.record else None
        parent = self.iterations.get((row.model, row.parent or ""))
        script = self.tree.script("run", iteration)
        return ReportEntry(
            page=page,
            row=row,
            iteration=iteration,
            record=record,
            build=builds.evidence(self.tree, record) if record else None,
            profile=self._profile(record) if record else None,
            earlier=tuple(each for each in own if each is not record),
            settings=settings(row.config, self._config(row.model, parent)),
            lines=lines(self.sources[iteration], self.sources[parent] if parent else None),
            parent_page=pages.get((row.model, row.parent or "")),
            run_script=self.tree.short(script) if script.is_file() else None,
        )

    def _profile(self, record: Record) -> ProfileRecord | None:
        """The newest profile of the record's source that read counters; else the newest, which says why not."""
        held, code = self.profiles[record.model], (record.iteration, record.source_sha256, record.families_sha256)
        return newest(held, *code) or next(of_code(held, *code), None)

    def _config(self, model: str, parent: Iteration | None) -> str | None:
        if parent is None:
            return None
        return next((each.config for each in reversed(self.records[model]) if each.iteration == parent.name), None)


def _source(iteration: Iteration) -> str:
    content = iteration.path.read_bytes()
    if len(content) > LONGEST_SOURCE_BYTES:
        return f"# {len(content):,} bytes, too long to show: {iteration.path.name}"
    return content.decode(errors="replace")
