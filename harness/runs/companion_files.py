"""The files beside an iteration that its contract names: build and run scripts, its timing, the records as TSV."""

import csv
import io
from pathlib import Path
from typing import Final

from harness.authoring import commands
from harness.catalog.tree import Iteration, Tree
from harness.machine import files
from harness.records.base import Status
from harness.records.results import Record, worst_error
from harness.records.store import read

_FIGURES: Final = ("time_ms", "tflops", "ratio", "ratio_low", "ratio_high", "timer", "rounds")
_COLUMNS: Final = ("recorded_at", "iteration", "status", "stage", *_FIGURES, "max_abs_err", "reason", "idea", "record")


def write(tree: Tree, iteration: Iteration, record: Record) -> None:
    """Write all that lies beside an iteration with an outcome; each file is there whole, or not at all."""
    commands.write(tree, iteration)
    files.put(tree.timing(iteration), ("\n".join(timing_lines(record)) + "\n").encode())
    _write_tsv(tree, iteration)


def complete(tree: Tree, iteration: Iteration) -> bool:
    """Whether they were written; a full disk or a kill may have come between the record and them."""
    return tree.timing(iteration).is_file() and _tsv(tree, iteration).is_file()


def timing_lines(record: Record) -> list[str]:
    """What an iteration prints when it is run by hand."""
    error = _worst_error(record)
    if record.status is not Status.PASSED and record.measurement is None:
        lines = [f"VERIFY: FAIL max_abs_err={error}", f"{record.status}: {record.reason}"]
        return lines
    lines = [f"VERIFY: PASS max_abs_err={error}"]
    if record.measurement is not None:
        measured = record.measurement
        lines.append(f"TFLOPS: {measured.tflops:.4g} time_ms: {measured.time_ms:.6g}")
        lines.append(
            f"ratio to {measured.baseline}: {measured.ratio:.4f} "
            f"[{measured.ratio_low:.4f}, {measured.ratio_high:.4f}], timer {measured.timer}"
        )
    if record.reason is not None:
        lines.append(f"{record.status}: {record.reason}")
    return lines


def _worst_error(record: Record) -> str:
    error = worst_error(record.verification)
    return "nan" if error is None else f"{error:.3g}"


def _tsv(tree: Tree, iteration: Iteration) -> Path:
    return tree.records(iteration.gpu, iteration.shape_key, iteration.model).with_suffix(".tsv")


def _write_tsv(tree: Tree, iteration: Iteration) -> None:
    """``results.tsv`` beside ``results.jsonl``: derived from it, for people and spreadsheets, never read back."""
    path = _tsv(tree, iteration)
    records, _ = read(path.with_suffix(".jsonl"), Record)
    text = io.StringIO(newline="")
    writer = csv.writer(text, dialect="excel-tab")
    writer.writerow(_COLUMNS)
    for record in records:
        measured = record.measurement
        figures = [getattr(measured, name) if measured else "" for name in _FIGURES]
        told = (record.recorded_at, record.iteration, record.status, record.stage)
        writer.writerow([*told, *figures, _worst_error(record), record.reason or "", record.idea or "", record.id])
    files.put(path, text.getvalue().encode())
