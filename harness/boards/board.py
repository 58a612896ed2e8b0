"""The rows of one problem that may be ranked together, what they say together, and what has the code of a row."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from statistics import median
from typing import Final, Protocol

import msgspec

from harness.catalog import gpus, names
from harness.catalog.tree import Tree
from harness.judge.facts.problem import parse_shape_key
from harness.records.base import Environment, RowKind, Status
from harness.records.results import Record
from harness.records.same_code import alike
from harness.records.throughput import Throughput, throughput
from harness.runs import copy_bandwidth

NOT_MEASURED: Final = "not measured"
KEEP: Final = "KEEP"
DISCARD: Final = "DISCARD"
FAMILY: Final = "family"
CHANGES: Final = ("source", FAMILY, "judge")  # what may change after a measurement, and makes its row stale


class BoardRow(msgspec.Struct, frozen=True):
    """One iteration on the leaderboard; a figure is None if the iteration has none."""

    gpu: str
    problem: str
    iteration: str
    model: str
    status: str
    rank: int | None
    time_ms: float | None
    tflops: float | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    timer: str | None
    rounds: int | None
    max_abs_err: float | None
    rel_err: float | None
    stale: tuple[str, ...]
    stable: bool | None
    decision: str | None
    bound: str | None
    idea: str | None
    config: str | None
    parent: str | None
    reason: str | None
    registers: int | None
    spill_bytes: int | None
    warnings: tuple[str, ...] | None
    source_sha256: str
    record: str | None
    environment: Environment | None
    gbs: float | None = None
    of_copy: float | None = None  # for a memory-bound problem, its bandwidth over that of a copy of as many bytes
    behind: float | None = None  # the leader's ratio over its own, if a play-off decided between them
    sustained_ratio: float | None = None  # alone at the power limit, where the chip reaches it
    sustained_ratio_low: float | None = None
    sustained_ratio_high: float | None = None
    sustained_tflops: float | None = None
    sustained_sm_mhz: float | None = None
    sustained_power_w: float | None = None
    joules_per_launch: float | None = None
    pj_per_flop: float | None = None
    of_ceiling: float | None = None  # sustained TFLOPS over what the power limit allows with nothing to move
    kind: RowKind = RowKind.ITERATION
    vs_best: float | None = None  # the strongest opponent's time over its own, measured as a pair
    vs_best_low: float | None = None
    vs_best_high: float | None = None
    best_opponent: str | None = None
    sustained_vs_best: float | None = None  # the same at the power limit, where another opponent may be the strongest
    sustained_vs_best_low: float | None = None
    sustained_vs_best_high: float | None = None
    sustained_best_opponent: str | None = None
    families_sha256: str | None = None
    sustained_record: str | None = None
    sustained_rank: int | None = None  # among the rows with a figure at the power limit
    sustained_behind: float | None = None  # like ``behind``, by a play-off at the power limit
    sustained_at_limit: bool | None = None  # whether the power limit lowered the clock
    ceiling_pj_per_flop: float | None = None  # what the ceiling spends
    ceiling_borrowed: bool | None = None  # whether the ceiling is that of another chip of the same name
    sm_clock_mhz: float | None = None  # at equal clocks
    dynamic: tuple[str, ...] | None = None  # the dimensions that its kernel leaves symbolic

    @property
    def key(self) -> tuple[str, str, str]:
        """Problem, model and name, as ``Iteration.key`` has them."""
        return self.problem, self.model, self.iteration

    @property
    def edited(self) -> bool:
        """Whether its source or a family of it has changed since it was measured."""
        return not set(CHANGES[:2]).isdisjoint(self.stale)

    @property
    def is_baseline(self) -> bool:
        return names.is_library(self.iteration)

    @property
    def kept_as(self) -> str:
        """``leader`` of its board, a ``step`` of its ladder, ``opponent``, or nothing."""
        if self.kind is RowKind.OPPONENT:
            return self.kind
        return "leader" if self.rank == 1 else "step" if self.decision == KEEP else ""

    @property
    def unstable(self) -> bool:
        """Whether its interval did not become narrow. Never on a CPU: its board states a resolution instead."""
        return self.stable is False and not gpus.find(self.gpu).is_cpu

    @property
    def half_width(self) -> float | None:
        """Half of the 95% interval, relative to the ratio; None without a ratio."""
        if not self.ratio or self.ratio_low is None or self.ratio_high is None:
            return None
        return (self.ratio_high - self.ratio_low) / 2 / self.ratio

    @property
    def is_ahead(self) -> bool:
        """Whether it is certainly faster than the library. Iteration 0 never is: one interval in twenty misses 1."""
        return not self.is_baseline and self.ratio_low is not None and self.ratio_low > 1


@dataclass(frozen=True, slots=True)
class Board:
    """The rows of one problem with the same environment and timer, which may be ranked together.

    ``opponents`` are never ranked among ``rows``; the strongest comes first.
    """

    gpu: str
    problem: str
    environment: Environment | None
    timer: str | None
    baseline: str
    baseline_rate: Throughput | None
    copy_gbs: float | None  # the copy bandwidth, if the problem is memory-bound
    rows: tuple[BoardRow, ...]
    opponents: tuple[BoardRow, ...] = ()

    def each(self, change: Callable[[BoardRow], BoardRow]) -> "Board":
        """The board with another row in the place of each."""
        return replace(self, rows=tuple(map(change, self.rows)))

    @property
    def in_gbs(self) -> bool:
        return gpus.find(self.gpu).is_memory_bound(parse_shape_key(self.problem))

    @property
    def chips(self) -> int:
        """How many GPUs measured its ranked rows; 0 for a CPU."""
        return len(self._rows_by_chip.keys() - {""})

    @property
    def home(self) -> str:
        """The UUID of the GPU that measured most of its ranked rows; empty for a CPU and where none is ranked."""
        return next((chip for chip, _ in self._rows_by_chip.most_common(1)), "")

    @property
    def _rows_by_chip(self) -> Counter[str]:
        return Counter(row.environment.device_uuid for row in self.rows if row.rank is not None and row.environment)

    @property
    def leader(self) -> BoardRow | None:
        """The first row, where it leads: of a selected iteration's board it may not."""
        return self.rows[0] if self.rows and self.rows[0].rank == 1 else None

    @property
    def first_at_limit(self) -> BoardRow | None:
        """What leads at the power limit: the leader where it shares the first rank there, else the first row of it."""
        if self.leader is not None and self.leader.sustained_rank == 1:
            return self.leader
        return next((row for row in self.at_limit if row.sustained_rank == 1), None)

    @property
    def sustained_leader(self) -> BoardRow | None:
        """What leads at the power limit in another's place; the leader may have no figure there."""
        first = self.first_at_limit
        return None if first == self.leader else first

    @property
    def at_limit(self) -> list[BoardRow]:
        """The ranked rows with a sustained figure, the first one first."""
        rows = [row for row in self.rows if row.sustained_rank is not None]
        return sorted(rows, key=lambda row: (row.sustained_rank or 0, row.sustained_behind or 1, -by_sustained(row)))

    @property
    def leader_rate(self) -> Throughput | None:
        leader = self.leader
        if leader is None or leader.time_ms is None:
            return None
        return throughput(parse_shape_key(self.problem), gpus.find(self.gpu), leader.time_ms)

    @property
    def competes(self) -> bool:
        """False for a lone copy, which only shows how fast memory is."""
        return not (len(self.rows) == 1 and parse_shape_key(self.problem).operator == copy_bandwidth.OPERATOR)

    @property
    def resolution(self) -> float | None:
        """What the ranked rows of a CPU can tell apart: the median of their relative half-widths. None for a GPU.

        A shared CPU seldom reaches the width that makes a row stable on a GPU, so its board says what it does reach.
        """
        found = [row.half_width for row in self.rows if row.rank is not None and row.half_width is not None]
        return median(found) if found and gpus.find(self.gpu).is_cpu else None

    @property
    def best_opponent(self) -> BoardRow | None:
        """The opponent with the highest ratio to the library; None if none has passed."""
        return self.opponents[0] if self.opponents and self.opponents[0].status == Status.PASSED else None

    @property
    def sustained_best_opponent(self) -> BoardRow | None:
        """The opponent with the highest ratio to the library at the power limit; None if none was measured there."""
        rows = [row for row in self.opponents if row.sustained_ratio is not None]
        return max(rows, key=lambda row: row.sustained_ratio or 0, default=None)


def newest(boards: Iterable[Board]) -> dict[str, Board]:
    """The newest board of each problem: the first, as boards come."""
    found: dict[str, Board] = {}
    for board in boards:
        found.setdefault(board.problem, board)
    return found


def by_sustained(row: BoardRow) -> float:
    return row.sustained_ratio or 0.0


class CodeHashes(Protocol):
    """The hashes of an iteration's source and of the families that it imports."""

    @property
    def source_sha256(self) -> str: ...

    @property
    def families_sha256(self) -> str: ...


def same_code(tree: Tree, row: BoardRow | Record, code: CodeHashes, tilelang: str) -> bool:
    """Whether ``code`` has a row's source, and families that give this source the same code by this TileLang."""
    if row.source_sha256 != code.source_sha256:
        return False
    problem, model, _ = row.key
    path = tree.same_code(row.gpu, problem, model)
    return row.families_sha256 == code.families_sha256 or row.families_sha256 in alike(
        path, code.source_sha256, code.families_sha256, tilelang
    )
