"""The sustained regime over a notebook: which rows it measures, why it skips others, and the record of each."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.boards import leaderboard
from harness.boards.board import Board, BoardRow, newest
from harness.boards.power import drawn
from harness.catalog.tree import Iteration, Selection, Tree
from harness.errors import ExitCode, UsageError
from harness.judge import fault_attribution
from harness.judge.candidate import Candidate, Rejection
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem, parse_shape_key
from harness.judge.pipeline import verify
from harness.judge.sustaining import SustainedSettings, sustain
from harness.machine.clock_lock import locked_mhz
from harness.machine.nvml import Device
from harness.machine.progress import Reporter
from harness.machine.table import bounded
from harness.records.base import exit_code_of
from harness.records.ceilings import CeilingRecord
from harness.records.results import Measurement, Record
from harness.records.store import append, read
from harness.records.sustained import SustainedMeasurement, SustainedRecord
from harness.runs import opponents
from harness.runs.opponents import Opposed, opponent_fields
from harness.runs.retrying import retrying
from harness.runs.run import Plan, alone, built_ahead, outcome, prepare
from harness.runs.within import TIME_OVER

ON_A_CPU: Final = "the sustained regime is about a GPU's power limit; a CPU has none here"
SLICED: Final = "this GPU is sliced by MIG, and its power limit and energy are of all slices together"
NO_LIMIT_TOLD: Final = "the driver tells no power limit of this GPU, so none can be seen to hold its clock"
BELOW_THE_LIMIT: Final = "below the power limit, which the library reaches: not on the board"
MEMORY_BOUND: Final = "memory-bound, so the power limit does not set its speed"


@dataclass(slots=True)
class SustainedResults:
    """One record per row, measured now or reused, and a reason for each problem that was skipped."""

    records: list[SustainedRecord] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def exit_code(self) -> ExitCode:
        return exit_code_of((each.status, each.cause) for each in self.records)


def hold(
    plan: Plan, regime: SustainedSettings, selection: Selection, reporter: Reporter, top: int = 1
) -> SustainedResults:
    """Measure the first ``top`` rows of each problem and the rows tied with its leader; reuse what is recorded.

    What may be the machine's fault is measured once more at the end, in new processes.
    """
    results = SustainedResults()
    waiting: dict[Iteration, Measurement] = {}

    def keep(record: SustainedRecord) -> None:
        append(plan.tree.sustained(*record.ladder), record)
        reporter.finished(line(record), advance=False)

    for iteration, paired in chosen(plan, selection, results.skipped, top):
        known = None if plan.again else recorded(plan, iteration)
        if known is None:
            waiting[iteration] = paired
        else:
            results.records.append(known)
    if waiting and plan.deadline.has_room(regime.budget_s):
        results.records += run(plan, waiting, regime, reporter, keep)
    held = {each.key for each in results.records}
    results.skipped |= {each.shape_key: TIME_OVER for each in waiting if each.key not in held}
    return results


def run(
    plan: Plan,
    waiting: Mapping[Iteration, Measurement],
    regime: SustainedSettings,
    reporter: Reporter,
    keep: Callable[[SustainedRecord], None],
) -> list[SustainedRecord]:
    """Measure iterations that have a measurement at equal clocks; returns the outcomes that count.

    Each outcome is passed to ``keep`` before the next measurement.
    """
    records: list[SustainedRecord] = []

    def judge(iterations: Sequence[Iteration]) -> Iterator[tuple[Iteration, SustainedRecord]]:
        with built_ahead(plan, iterations, reporter, regime.budget_s) as built:
            for candidate, rejection in built:
                iteration = candidate.iteration
                reporter.doing(f"sustained {iteration}")
                found = rejection or outcome_of(candidate, waiting[iteration], regime)
                yield iteration, record_of(plan, candidate, found)

    with alone(plan.tree, plan.gpu, plan.device):
        prepare(plan.gpu, plan.device, reporter)
        for _, record, counts in retrying(list(waiting), judge, plan.gpu):
            keep(record)
            if counts:
                records.append(record)
    return records


def without_ceiling(held: Iterable[SustainedRecord], ceilings: Iterable[CeilingRecord]) -> list[str]:
    """The input dtypes of what the power limit held on a chip that has no ceiling of its own for them."""
    known = {(each.dtype, each.environment.device_uuid) for each in ceilings}
    limited = (each for each in held if each.measurement is not None and each.measurement.at_limit)
    wanted = {(parse_shape_key(each.shape_key).input, each.environment.device_uuid) for each in limited}
    return sorted({dtype for dtype, _ in wanted - known})


def no_limit(gpu: Gpu, device: Device | None, problem: Problem) -> str | None:
    """Why a problem has no sustained figure; None where it has one."""
    if gpu.is_cpu:
        return ON_A_CPU
    if device is not None and device.sliced:
        return SLICED
    if device is not None and device.power_limit_w is None:
        return NO_LIMIT_TOLD
    return MEMORY_BOUND if gpu.is_memory_bound(problem) else None


def require_limit(gpu: Gpu, device: Device | None, problem: Problem) -> None:
    """Raise UsageError where a problem has no sustained figure."""
    reason = no_limit(gpu, device, problem)
    if reason is not None:
        raise UsageError(f"{problem}: {reason}")


def chosen(
    plan: Plan, selection: Selection, skipped: dict[str, str], top: int = 1
) -> Iterator[tuple[Iteration, Measurement]]:
    """The rows to measure, from each problem's newest board; says in ``skipped`` why a problem has none."""
    boards, _ = leaderboard.boards(plan.tree, plan.gpu.key, selection)
    clock = locked_mhz(plan.device)
    alike = (board for board in boards if board.environment is None or board.environment.locked_mhz == clock)
    for board in newest(alike).values():
        reason = no_limit(plan.gpu, plan.device, parse_shape_key(board.problem))
        if reason is not None:
            skipped[board.problem] = reason
        else:
            yield from leading(plan.tree, board, top)


def leading(tree: Tree, board: Board, top: int) -> Iterator[tuple[Iteration, Measurement]]:
    """The first ``top`` rows of a board and the ties of its leader, without the library and what is stale."""
    rows = [row for row in board.rows if row.rank is not None and not row.stale and not row.is_baseline]
    first = [row for position, row in enumerate(rows) if row.rank == 1 or position < top]
    yield from paired_of(tree, first)


def measurement_of(tree: Tree, row: BoardRow) -> Measurement | None:
    """What a row's record measured at equal clocks."""
    records, _ = read(tree.records(row.gpu, row.problem, row.model), Record)
    return next((each.measurement for each in records if each.id == row.record), None)


def paired_of(tree: Tree, rows: Iterable[BoardRow]) -> Iterator[tuple[Iteration, Measurement]]:
    """The iterations of some rows, each with its measurement at equal clocks."""
    for row in rows:
        if (found := measurement_of(tree, row)) is not None:
            yield tree.parse(tree.source(row.gpu, row.problem, row.model, row.iteration)), found


def recorded(plan: Plan, iteration: Iteration) -> SustainedRecord | None:
    """The newest record of the same code and environment, if another measurement would repeat it."""
    return opponents.recorded(plan, Opposed(iteration), SustainedRecord)


def outcome_of(
    candidate: Candidate,
    paired: Measurement,
    regime: SustainedSettings,
    first: Callable[[Candidate], Candidate] = lambda candidate: candidate,
) -> SustainedMeasurement | Rejection:
    """Measure a candidate that is built, or that ``first`` builds; its processes end."""
    try:
        return sustain(verify(first(candidate)), paired, regime)
    except Rejection as rejection:
        return fault_attribution.attribute(candidate, rejection)
    finally:
        candidate.leave()


def record_of(plan: Plan, candidate: Candidate, found: SustainedMeasurement | Rejection) -> SustainedRecord:
    rejection, measured = (found, None) if isinstance(found, Rejection) else (None, found)
    opposed = opponent_fields(plan.tree, candidate.against)
    return SustainedRecord(**outcome(plan, candidate, rejection), **opposed, measurement=measured)


def line(record: SustainedRecord) -> str:
    """One line of a run: the ratio with its interval, clock, power and energy, or the reason why there is none."""
    name = f"{record.shape_key} {record.iteration}{f' against {record.opponent}' if record.opponent else ''}"
    found = record.measurement
    if found is None:
        return f"{record.status.value:<9} {name}  sustained: {record.reason}"
    side = found.contestant
    parts = [bounded(found), f"{side.tflops:.1f} TFLOPS", *drawn(side.power_w, side.sm_clock_mhz, side.pj_per_flop)]
    if side.sm_clock_mhz is None:
        parts.append("the driver tells neither clock nor power")
    elif not found.at_limit:
        parts.append("below the power limit" if found.counts else BELOW_THE_LIMIT)
    return f"{record.status.value:<9} {name}  sustained {', '.join(parts)}"
