"""Exports: records as a flat table for other tools, with units in the names of the columns."""

import csv
import io
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import msgspec

from harness.boards.board import Board, BoardRow
from harness.errors import InfrastructureError, UsageError, explained
from harness.evidence.report import main_kernel
from harness.judge.facts.problem import Problem, parse_shape_key
from harness.machine.hints import pip_install_here
from harness.operators import OPERATORS
from harness.records.base import RowKind
from harness.records.builds import KernelEvidence
from harness.records.results import Record, worst_error

FORMATS: Final = ("csv", "json", "parquet")

_Value = str | int | float | bool | None
_Column = tuple[type, str, str]


@dataclass(frozen=True)
class _Exported:
    """A record; ``row`` and ``board`` say where the leaderboard shows it, and are None where it does not."""

    record: Record
    problem: Problem
    row: BoardRow | None
    board: int | None

    @property
    def kind(self) -> RowKind:
        return self.record.kind or RowKind.ITERATION

    @cached_property
    def kernel(self) -> KernelEvidence | None:
        return main_kernel(self.record.build)

    @cached_property
    def worst(self) -> SimpleNamespace:
        names = ("max_abs_err", "rel_err")
        return SimpleNamespace(**{name: worst_error(self.record.verification, name) for name in names})

    @cached_property
    def dim(self) -> SimpleNamespace:
        return SimpleNamespace(**dict(zip(OPERATORS[self.problem.operator].dims, self.problem.dims, strict=True)))

    def read(self, path: str) -> _Value:
        """What a path leads to, such as ``record.measurement.ratio``; None where a part of it is missing."""
        found: Any = self
        for name in path.split("."):
            found = getattr(found, name, None)
        if isinstance(found, tuple):
            return ", ".join(found)
        return found if found is None or isinstance(found, int | float) else str(found)


def _dimensions() -> dict[str, _Column]:
    """A column for each dimension of the operators that are known now."""
    names = dict.fromkeys(name for operator in OPERATORS.values() for name in operator.dims)
    return {f"dim_{name}": (int, f"the problem's dimension {name}, if it has one", f"dim.{name}") for name in names}


# Column -> (type, what it holds, the path to it); docs/reference/export.md is this table.
COLUMNS: Final[dict[str, _Column]] = {
    "record": (str, "short id of the record", "record.id"),
    "recorded_at": (str, "when, ISO 8601 in UTC", "record.recorded_at"),
    "gpu": (str, "GPU key", "record.gpu"),
    "shape_key": (str, "the problem", "record.shape_key"),
    "model": (str, "the model that tuned", "record.model"),
    "iteration": (str, "the iteration's name", "record.iteration"),
    "number": (int, "its number in the ladder", "record.number"),
    "parent": (str, "the iteration that it started from", "record.parent"),
    "idea": (str, "its idea, one sentence", "record.idea"),
    "config": (str, "its pinned parameters", "record.config"),
    "status": (str, "passed, rejected or failed", "record.status"),
    "stage": (str, "the last stage that ran", "record.stage"),
    "cause": (str, "why it did not pass", "record.cause"),
    "reason": (str, "the same in words", "record.reason"),
    "ratio": (float, "the library's time over the kernel's, median over rounds", "record.measurement.ratio"),
    "ratio_low": (float, "lower end of its 95% interval", "record.measurement.ratio_low"),
    "ratio_high": (float, "upper end of its 95% interval", "record.measurement.ratio_high"),
    "stable": (bool, "whether the interval became narrow enough", "record.measurement.stable"),
    "time_ms": (float, "one launch, milliseconds, median", "record.measurement.time_ms"),
    "tflops": (float, "10^12 floating-point operations a second", "record.measurement.tflops"),
    "baseline": (str, "the library's call", "record.measurement.baseline"),
    "baseline_ms": (float, "one call of the library, milliseconds, median", "record.measurement.baseline_ms"),
    "baseline_tflops": (float, "10^12 floating-point operations a second", "record.measurement.baseline_tflops"),
    "timer": (str, "events, graph or host", "record.measurement.timer"),
    "rounds": (int, "pairs of blocks", "record.measurement.rounds"),
    "placements": (int, "placements of the buffers", "record.measurement.placements"),
    "launches_per_block": (int, "launches of the kernel in one block", "record.measurement.launches"),
    "device_s": (float, "time that measuring took, seconds", "record.measurement.seconds"),
    "max_abs_err": (float, "largest absolute error of all trials", "worst.max_abs_err"),
    "rel_err": (float, "largest norm-wise relative error of all trials", "worst.rel_err"),
    "sm_clock_mhz": (float, "SM clock while it was measured, MHz, median", "record.measurement.telemetry.sm_clock_mhz"),
    "power_w": (float, "power, watts, median", "record.measurement.telemetry.power_w"),
    "temperature_c": (float, "temperature, degrees Celsius, largest", "record.measurement.telemetry.temperature_c"),
    "throttle": (str, "reasons for which the clock was lowered", "record.measurement.telemetry.throttle"),
    "registers_per_thread": (int, "of the kernel that computes", "kernel.registers"),
    "spill_bytes_per_thread": (int, "stores and loads of spilled registers, bytes", "kernel.spill_bytes"),
    "shared_bytes_per_block": (int, "static and dynamic shared memory, bytes", "kernel.shared_bytes"),
    "threads_per_block": (int, "threads of a block", "kernel.threads"),
    "blocks_per_sm": (int, "blocks that an SM holds at once", "kernel.blocks_per_sm"),
    "device": (str, "the GPU's or CPU's name", "record.environment.device"),
    "device_uuid": (str, "which chip", "record.environment.device_uuid"),
    "driver": (str, "version of the NVIDIA driver", "record.environment.driver"),
    "torch": (str, "version", "record.environment.torch"),
    "tilelang": (str, "version", "record.environment.tilelang"),
    "image": (str, "the container's image, if any", "record.environment.image"),
    "forced": (bool, "whether the key is not the device's", "record.environment.forced"),
    "source_sha256": (str, "hash of the iteration's file", "record.source_sha256"),
    "families_sha256": (str, "hash of what it imports", "record.families_sha256"),
    "judge_sha256": (str, "hash of the judge", "record.environment.judge_sha256"),
    "operator": (str, "the problem's operator", "problem.operator"),
    "input_dtype": (str, "dtype of the inputs", "problem.input"),
    "output_dtype": (str, "dtype of the output", "problem.output"),
    **_dimensions(),
    "flops": (int, "floating-point operations of one launch", "problem.flops"),
    "bytes": (int, "each input once and the output once", "problem.bytes"),
    "board": (int, "0: on the problem's newest board, 1: the one before; empty: on none", "board"),
    "rank": (int, "its rank on that board", "row.rank"),
    "decision": (str, "KEEP: it leads, or was a step of its ladder; else DISCARD", "row.decision"),
    "stale": (str, "what has changed since: source, family, judge", "row.stale"),
    "bound": (str, "what bounds it, by its profile", "row.bound"),
    "gbs": (float, "the problem's bytes over the time, 10^9 bytes a second", "row.gbs"),
    "of_copy": (float, "that over the bandwidth of a copy, if memory-bound", "row.of_copy"),
    "behind": (float, "the leader's ratio over its own, if a play-off decided", "row.behind"),
    "kind": (str, "iteration or opponent", "kind"),
    "vs_best": (float, "the strongest opponent's time over the kernel's, measured as a pair", "row.vs_best"),
    "vs_best_low": (float, "lower end of its 95% interval", "row.vs_best_low"),
    "vs_best_high": (float, "upper end of its 95% interval", "row.vs_best_high"),
    "best_opponent": (str, "that opponent", "row.best_opponent"),
    "cublas": (str, "version of cuBLAS as loaded", "record.environment.cublas"),
    "cublaslt": (str, "version of cuBLASLt as loaded", "record.environment.cublaslt"),
    "cudnn": (str, "version of cuDNN as loaded", "record.environment.cudnn"),
    "nvrtc": (str, "version of NVRTC as loaded", "record.environment.nvrtc"),
    "sustained_record": (str, "short id of its record at the power limit", "row.sustained_record"),
    "sustained_rank": (int, "its rank at the power limit", "row.sustained_rank"),
    "sustained_ratio": (float, "the library's time over the kernel's, each alone", "row.sustained_ratio"),
    "sustained_ratio_low": (float, "lower end of its 95% interval", "row.sustained_ratio_low"),
    "sustained_ratio_high": (float, "upper end of its 95% interval", "row.sustained_ratio_high"),
    "sustained_tflops": (float, "throughput at the power limit, 10^12 flops a second", "row.sustained_tflops"),
    "sustained_sm_mhz": (float, "SM clock there, MHz", "row.sustained_sm_mhz"),
    "sustained_power_w": (float, "power of the board there, W", "row.sustained_power_w"),
    "joules_per_launch": (float, "energy of one launch there, J", "row.joules_per_launch"),
    "pj_per_flop": (float, "that over the flops of a launch, pJ", "row.pj_per_flop"),
    "of_ceiling": (float, "sustained_tflops over the chip's power ceiling", "row.of_ceiling"),
    "ceiling_borrowed": (bool, "whether that ceiling is another chip's", "row.ceiling_borrowed"),
    "sustained_behind": (float, "like behind, by a play-off at the power limit", "row.sustained_behind"),
    "sustained_vs_best": (float, "vs_best at the power limit", "row.sustained_vs_best"),
    "sustained_vs_best_low": (float, "lower end of its 95% interval", "row.sustained_vs_best_low"),
    "sustained_vs_best_high": (float, "upper end of its 95% interval", "row.sustained_vs_best_high"),
    "sustained_best_opponent": (str, "the strongest opponent there", "row.sustained_best_opponent"),
    "dynamic": (str, "the dimensions that its kernel leaves symbolic", "record.dynamic"),
    "verdict": (str, "status on the board: rejected too where another run of the code was wrong", "row.status"),
}


def columns() -> dict[str, _Column]:
    """COLUMNS, and after them the dimensions that only a repository's own operators have."""
    return COLUMNS | {name: column for name, column in _dimensions().items() if name not in COLUMNS}


def known(records: Sequence[Record]) -> tuple[list[Record], list[str]]:
    """The records of problems that this repository knows, and a line for each other problem."""
    unknown = dict[str, str]()
    for key in dict.fromkeys(each.shape_key for each in records):
        try:
            parse_shape_key(key)
        except UsageError as error:
            unknown[key] = f"records of {key} are left out: {error}"
    return [each for each in records if each.shape_key not in unknown], list(unknown.values())


def rows(records: Iterable[Record], boards: Iterable[Board] = ()) -> list[dict[str, _Value]]:
    """One row per record, in their order, each with its place on the boards of its GPU."""
    number = Counter[str]()
    shown: dict[str | None, tuple[BoardRow, int]] = {}
    for board in boards:
        shown |= {row.record: (row, number[board.problem]) for row in (*board.rows, *board.opponents)}
        number[board.problem] += 1
    exported = (_Exported(each, parse_shape_key(each.shape_key), *shown.get(each.id, (None, None))) for each in records)
    given = columns()
    return [{name: each.read(path) for name, (_, _, path) in given.items()} for each in exported]


def chosen(named: str | None, output: Path | None) -> str:
    """The named format, or else that of the file's suffix, or else CSV. Raises UsageError."""
    guess = output.suffix.removeprefix(".") if output is not None else ""
    found = named or guess or FORMATS[0]
    if found not in FORMATS:
        wrong = f"--format '{found}' is" if named else f"the suffix of --output {output} is"
        raise UsageError(f"{wrong} not {', '.join(FORMATS)}{'' if named else '; name the format with --format'}")
    if found == "parquet" and output is None:
        raise UsageError("Parquet needs a file: name it with --output records.parquet")
    return found


def write(table: list[dict[str, _Value]], form: str, output: Path | None) -> None:
    """Write the table to a file, or to stdout."""
    content = {"csv": _csv, "json": _json, "parquet": _parquet}[form](table)
    if output is None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_bytes(content)
    except OSError as error:
        raise InfrastructureError(f"{output} cannot be written: {explained(error)}") from error


def _csv(table: list[dict[str, _Value]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue().encode()


def _json(table: list[dict[str, _Value]]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(table), indent=1) + b"\n"


def _parquet(table: list[dict[str, _Value]]) -> bytes:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError(f"Parquet needs pyarrow: {pip_install_here('parquet')}") from None
    types: dict[type, Any] = {str: pyarrow.string(), int: pyarrow.int64(), bool: pyarrow.bool_()}
    types[float] = pyarrow.float64()
    schema = pyarrow.schema([(name, types[kind]) for name, (kind, _, _) in columns().items()])
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(table, schema=schema), buffer)
    return buffer.getvalue()
