"""The sustained regime over a notebook: which rows it measures, why it skips others, and the record of each."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from harness.boards import leaderboard
from harness.boards.leaderboard import Board
from harness.catalog.tree import Iteration, Selection, Tree
from harness.errors import ExitCode
from harness.judge import fault_attribution
from harness.judge.candidate import Candidate, Referees, Rejection, Settings
from harness.judge.facts.gpu import Gpu
from harness.judge.pipeline import build, check, verify
from harness.judge.sustaining import SustainedSettings, sustain
from harness.machine.nvml import Device
from harness.machine.progress import Reporter
from harness.records.base import Cause, Environment, Status, identity
from harness.records.environment import describing
from harness.records.results import Measurement, Record
from harness.records.store import append, read
from harness.records.sustained import SustainedMeasurement, SustainedRecord
from harness.runs.run import alone, prepare

ON_A_CPU: Final = "the sustained regime is about a GPU's power limit; a CPU has none here"
MEMORY_BOUND: Final = "memory-bound, so the power limit does not set its speed"


@dataclass(frozen=True, slots=True)
class SustainedPlan:
    """What to measure in the sustained regime, and how."""

    tree: Tree
    gpu: Gpu
    device: Device | None
    settings: Settings
    again: bool = False
    regime: SustainedSettings = field(default_factory=SustainedSettings)


@dataclass(slots=True)
class SustainedResults:
    """One record per row, measured now or reused, and a reason for each problem that was skipped."""

    records: list[SustainedRecord] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    reused: int = 0

    @property
    def exit_code(self) -> ExitCode:
        if any(record.cause is Cause.REFEREE for record in self.records):
            return ExitCode.INFRASTRUCTURE
        failed = any(record.status is not Status.PASSED for record in self.records)
        return ExitCode.REJECTED if failed else ExitCode.PASSED


Row = tuple[Iteration, Measurement]


def hold(plan: SustainedPlan, selection: Selection, reporter: Reporter) -> SustainedResults:
    """Measure the leader of each problem and the rows tied with it; those that are recorded are reused."""
    results = SustainedResults()
    environment = describing(plan.tree.root, plan.gpu, plan.device)
    waiting: list[Row] = []
    for iteration, measured in chosen(plan, selection, results.skipped):
        known = None if plan.again else recorded(plan.tree, iteration, environment(iteration.problem.operator))
        if known is None:
            waiting.append((iteration, measured))
            continue
        results.records.append(known)
        results.reused += 1
    if not waiting:
        return results
    with alone(plan.tree, plan.gpu, plan.device):
        prepare(plan.gpu, plan.device, reporter)
        for record in _measured(plan, waiting, environment, reporter):
            results.records.append(record)
            reporter.finished(line(record), advance=False)
    return results


def chosen(plan: SustainedPlan, selection: Selection, skipped: dict[str, str]) -> Iterator[Row]:
    """The rows of the first rank of each problem's newest board; says in ``skipped`` why a problem has none."""
    boards, _ = leaderboard.boards(plan.tree, plan.gpu.key, selection)
    newest = {board.problem: board for board in reversed(boards)}
    for board in newest.values():
        if plan.gpu.is_cpu:
            skipped[board.problem] = ON_A_CPU
        elif board.in_gbs:
            skipped[board.problem] = MEMORY_BOUND
        else:
            yield from _leading(plan.tree, board, selection)


def _leading(tree: Tree, board: Board, selection: Selection) -> Iterator[Row]:
    iterations, _ = tree.scan(board.gpu, selection)
    leading = {
        (row.model, row.iteration): row.record
        for row in board.rows
        if row.rank == 1 and not row.stale and not row.is_baseline
    }
    for iteration in iterations:
        record = leading.get((iteration.model, iteration.name)) if iteration.shape_key == board.problem else None
        measured = _measurement(tree, iteration, record)
        if measured is not None:
            yield iteration, measured


def _measurement(tree: Tree, iteration: Iteration, record: str | None) -> Measurement | None:
    if record is None:
        return None
    records, _ = read(tree.records(iteration.gpu, iteration.shape_key, iteration.model), Record)
    return next((each.measurement for each in records if each.id == record), None)


def recorded(tree: Tree, iteration: Iteration, environment: Environment) -> SustainedRecord | None:
    """The newest record of the same source, families and environment, if another measurement would repeat it."""
    source, families = leaderboard.hashes(tree, iteration)
    path = tree.sustained(iteration.gpu, iteration.shape_key, iteration.model)
    return next(
        (
            record
            for record in reversed(read(path, SustainedRecord)[0])
            if record.iteration == iteration.name
            and (record.source_sha256, record.families_sha256) == (source, families)
            and record.environment == environment
            and record.cause is not Cause.REFEREE
        ),
        None,
    )


def _measured(
    plan: SustainedPlan, rows: list[Row], environment: Callable[[str], Environment], reporter: Reporter
) -> Iterator[SustainedRecord]:
    referees = Referees(plan.tree.root, plan.gpu)
    try:
        for iteration, paired in rows:
            reporter.doing(f"sustained {iteration}")
            judged_in = environment(iteration.problem.operator)
            enter = partial(Candidate.enter, iteration, plan.tree.root, plan.gpu, plan.device, plan.settings, referees)
            record = _once(enter, paired, plan, judged_in)
            append(plan.tree.sustained(iteration.gpu, iteration.shape_key, iteration.model), record)
            yield record
    finally:
        referees.leave()


def _once(
    enter: Callable[[], Candidate], paired: Measurement, plan: SustainedPlan, environment: Environment, turn: int = 0
) -> SustainedRecord:
    """The outcome of one row; what may be the machine's fault is measured once more in new processes."""
    candidate = enter()
    measured: SustainedMeasurement | None = None
    rejection: Rejection | None = None
    try:
        measured = sustain(verify(build(check(candidate))), paired, plan.regime)
    except Rejection as found:
        rejection = fault_attribution.attribute(candidate, found)
    finally:
        candidate.leave()
    if rejection is not None and turn == 0 and fault_attribution.is_retried(rejection.cause, plan.gpu):
        return _once(enter, paired, plan, environment, turn + 1)
    return SustainedRecord(
        **identity(candidate.iteration),
        status=Status.PASSED if rejection is None else rejection.cause.status,
        source_sha256=candidate.source_sha256,
        families_sha256=candidate.families_sha256,
        environment=environment,
        cause=None if rejection is None else rejection.cause,
        reason=None if rejection is None else rejection.reason,
        measurement=measured,
    )


def line(record: SustainedRecord) -> str:
    """One line of a run: the ratio with its interval, clock, power and energy, or the reason why there is none."""
    name = f"{record.shape_key} {record.iteration}"
    found = record.measurement
    if found is None:
        return f"{record.status.value:<9} {name}  sustained: {record.reason}"
    side = found.contestant
    parts = [f"{found.ratio:.4f} [{found.ratio_low:.4f}, {found.ratio_high:.4f}]", f"{side.tflops:.1f} TFLOPS"]
    if side.sm_clock_mhz and side.power_w:
        parts.append(f"{side.power_w:.0f} W at {side.sm_clock_mhz:.0f} MHz")
    if side.pj_per_flop:
        parts.append(f"{side.pj_per_flop:.3f} pJ per flop")
    if not found.at_limit:
        parts.append("below the power limit")
    return f"{record.status.value:<9} {name}  sustained {', '.join(parts)}"
