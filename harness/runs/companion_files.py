"""The files beside an iteration that its contract names: build and run scripts, its timing, the records as TSV."""

import csv
import io
from pathlib import Path
from typing import Final

from harness.authoring import commands
from harness.catalog.tree import Iteration, Tree
from harness.machine import files
from harness.machine.table import bounded
from harness.records.base import Status
from harness.records.results import Record, worst_error
from harness.records.store import read

_FIGURES: Final = ("time_ms", "tflops", "ratio", "ratio_low", "ratio_high", "timer", "rounds")
_COLUMNS: Final = ("recorded_at", "iteration", "status", "stage", *_FIGURES, "max_abs_err", "reason", "idea", "record")


def write(tree: Tree, iteration: Iteration, record: Record) -> None:
    """Write all files beside an iteration after an outcome, each whole or not at all."""
    commands.write(tree, iteration)
    files.put(tree.timing(iteration), ("\n".join(timing_lines(record)) + "\n").encode())
    _write_tsv(tree, iteration)


def complete(tree: Tree, iteration: Iteration) -> bool:
    """Whether the files exist; a full disk or a kill may have prevented them after the record was written."""
    return tree.timing(iteration).is_file() and _tsv(tree, iteration).is_file()


def timing_lines(record: Record) -> list[str]:
    """The lines that an iteration prints when a person runs it."""
    measured = record.measurement
    passed = record.status is Status.PASSED or measured is not None
    lines = [f"VERIFY: {'PASS' if passed else 'FAIL'} max_abs_err={_worst_error(record)}"]
    if measured is not None:
        lines.append(f"TFLOPS: {measured.tflops:.4g} time_ms: {measured.time_ms:.6g}")
        lines.append(f"ratio to {measured.baseline}: {bounded(measured)}, timer {measured.timer}")
    if record.reason is not None or not passed:
        lines.append(f"{record.status}: {record.reason}")
    return lines


def _worst_error(record: Record) -> str:
    error = worst_error(record.verification)
    return "nan" if error is None else f"{error:.3g}"


def _tsv(tree: Tree, iteration: Iteration) -> Path:
    return tree.records(*iteration.ladder).with_suffix(".tsv")


def _write_tsv(tree: Tree, iteration: Iteration) -> None:
    """Write ``results.tsv`` from ``results.jsonl``, for people and spreadsheets; nothing reads it back."""
    path = _tsv(tree, iteration)
    records, _ = read(path.with_suffix(".jsonl"), Record)
    text = io.StringIO(newline="")
    writer = csv.writer(text, dialect="excel-tab")
    writer.writerow(_COLUMNS)
    for record in records:
        outcome = (record.recorded_at, record.iteration, record.status, record.stage)
        figures = [getattr(record.measurement, name, "") for name in _FIGURES]
        writer.writerow([*outcome, *figures, _worst_error(record), record.reason or "", record.idea or "", record.id])
    files.put(path, text.getvalue().encode())
