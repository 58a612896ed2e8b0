"""A row of the leaderboard, made of an iteration and its record."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from harness.boards.board import DISCARD, KEEP, NOT_MEASURED, BoardRow
from harness.boards.held import Held
from harness.catalog.tree import Iteration
from harness.evidence.report import main_kernel
from harness.judge import builds
from harness.judge.facts.hashes import source_sha256, widened_at
from harness.machine.table import counted
from harness.records.base import RowKind, Status
from harness.records.results import Measurement, Record, worst_error
from harness.records.sustained import SustainedMeasurement
from harness.records.throughput import bandwidth_gbs

_OF_MEASUREMENT: Final = ("time_ms", "tflops", "ratio", "ratio_low", "ratio_high", "timer", "rounds", "stable")
_OF_RECORD: Final = ("idea", "config", "parent", "reason", "environment", "dynamic")


def row_of(held: Held, iteration: Iteration, record: Record | None) -> BoardRow:
    """The row of an iteration and the record that counts for it, not yet ranked."""
    measured, build = (record.measurement, builds.evidence(held.tree, record)) if record else (None, None)
    trials, kernel = record.verification if record else (), main_kernel(build)
    row = BoardRow(
        gpu=iteration.gpu,
        problem=iteration.shape_key,
        iteration=iteration.name,
        model=iteration.model,
        status=record.status.value if record else NOT_MEASURED,
        rank=None,
        gbs=bandwidth_gbs(iteration.problem, measured.time_ms) if measured else None,
        max_abs_err=worst_error(trials),
        rel_err=worst_error(trials, "rel_err"),
        stale=held.stale(iteration, record) if record else (),
        decision=None,
        bound=None,
        registers=kernel.registers if kernel else None,
        spill_bytes=kernel.spill_bytes if kernel else None,
        warnings=build.warnings if build else None,
        source_sha256=record.source_sha256 if record else source_sha256(iteration.path),
        families_sha256=record.families_sha256 if record else None,
        record=record.id if record else None,
        kind=(record and record.kind) or RowKind.ITERATION,
        sm_clock_mhz=measured.telemetry.sm_clock_mhz if measured and measured.telemetry else None,
        **{name: getattr(measured, name, None) for name in _OF_MEASUREMENT},
        **{name: getattr(record, name, None) for name in _OF_RECORD},
    )
    return row if row.edited else msgspec.structs.replace(row, bound=held.bounds.get(row.key))


def decided(rows: Iterable[tuple[int, BoardRow]]) -> list[BoardRow]:
    """KEEP a row if its interval is above that of its model's best so far; each comes with its number."""
    best: dict[tuple[str, str | None], float] = {}
    found = []
    for _, row in sorted(rows, key=lambda each: (each[1].model, each[0])):
        held = best.get((row.model, row.timer), 0.0)
        keeps = row.status == Status.PASSED and row.ratio_low is not None and row.ratio_low > held
        if keeps and row.ratio_high is not None:
            best[row.model, row.timer] = row.ratio_high
        found.append(msgspec.structs.replace(row, decision=KEEP if keeps else DISCARD))
    return found


def refuted(held: Held, row: BoardRow) -> BoardRow:
    """The row, rejected where another run of the same code found its result wrong, by this judge.

    Once a run passes by limits that became wider, runs by the narrower ones do not count.
    """
    if row.status != Status.PASSED:
        return row
    widened = widened_at(held.tree.root, held.problem.operator)
    wrong = [each for each in held.wrong if held.same_code(row, each)]
    if wrong and held.passed_since(row, widened):
        wrong = [each for each in wrong if each.recorded_at >= widened]
    if not wrong:
        return row
    reason = f"wrong in {counted(len(wrong), 'other run')} of the same code: {wrong[-1].reason}"
    return msgspec.structs.replace(row, status=Status.REJECTED.value, reason=reason)


def beside(row: BoardRow, best: str, measured: Measurement | SustainedMeasurement, regime: str = "") -> BoardRow:
    """The row with its figures against the strongest opponent; ``regime`` begins the names of their fields."""
    figures = {f"vs_best{end}": getattr(measured, f"ratio{end}") for end in ("", "_low", "_high")}
    named = {"best_opponent": best, **figures}
    return msgspec.structs.replace(row, **{f"{regime}{name}": figure for name, figure in named.items()})


def sustained_figures(found: SustainedMeasurement) -> dict[str, Any]:
    """The figures at the power limit by the names of a row's fields."""
    side = found.contestant
    return {
        "sustained_ratio": found.ratio,
        "sustained_ratio_low": found.ratio_low,
        "sustained_ratio_high": found.ratio_high,
        "sustained_tflops": side.tflops,
        "sustained_sm_mhz": side.sm_clock_mhz,
        "sustained_power_w": side.power_w,
        "joules_per_launch": side.joules_per_launch,
        "pj_per_flop": side.pj_per_flop,
        "sustained_at_limit": found.at_limit,
    }
