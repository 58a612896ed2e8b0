"""Exports: records as a flat table for other tools, with units in the names of the columns."""

import csv
import io
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.boards.board import Board, BoardRow
from harness.errors import InfrastructureError, UsageError, explained
from harness.evidence.report import main_kernel
from harness.judge.facts.problem import Problem, parse_shape_key
from harness.machine.hints import pip_install_here
from harness.operators import OPERATORS
from harness.records.base import RowKind
from harness.records.results import Record, worst_error

FORMATS: Final = ("csv", "json", "parquet")

_Value = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class _Exported:
    """A record; ``row`` and ``board`` say where the leaderboard shows it, and are None where it does not."""

    record: Record
    problem: Problem
    row: BoardRow | None
    board: int | None


_Read = Callable[[_Exported], _Value]


def _of(name: str) -> _Read:
    """A field of the record, or of a part of it, such as ``measurement.ratio``."""

    def value(each: _Exported) -> _Value:
        found: Any = each.record
        for part in name.split("."):
            found = getattr(found, part, None)
        return _plain(found)

    return value


def _kernel(name: str) -> _Read:
    return lambda each: getattr(main_kernel(each.record.build), name, None)


def _worst(name: str) -> _Read:
    return lambda each: worst_error(each.record.verification, name)


def _of_problem(name: str) -> _Read:
    return lambda each: getattr(each.problem, name)


def _dimension(name: str) -> _Read:
    return lambda each: dict(zip(OPERATORS[each.problem.operator].dims, each.problem.dims, strict=True)).get(name)


def _of_row(name: str) -> _Read:
    return lambda each: _plain(getattr(each.row, name, None))


def _plain(value: Any) -> _Value:
    if isinstance(value, tuple):
        return ", ".join(value)
    return value if value is None or isinstance(value, int | float) else str(value)


def _dimensions() -> dict[str, tuple[type, str, _Read]]:
    """A column for each dimension of the operators that are known now."""
    names = dict.fromkeys(name for operator in OPERATORS.values() for name in operator.dims)
    return {f"dim_{name}": (int, f"the problem's dimension {name}, if it has one", _dimension(name)) for name in names}


# Column -> (type, what it holds, how it is read); docs/reference/export.md is this table.
COLUMNS: Final[dict[str, tuple[type, str, _Read]]] = {
    "record": (str, "short id of the record", lambda each: each.record.id),
    "recorded_at": (str, "when, ISO 8601 in UTC", _of("recorded_at")),
    "gpu": (str, "GPU key", _of("gpu")),
    "shape_key": (str, "the problem", _of("shape_key")),
    "model": (str, "the model that tuned", _of("model")),
    "iteration": (str, "the iteration's name", _of("iteration")),
    "number": (int, "its number in the ladder", _of("number")),
    "parent": (str, "the iteration that it started from", _of("parent")),
    "idea": (str, "its idea, one sentence", _of("idea")),
    "config": (str, "its pinned parameters", _of("config")),
    "status": (str, "passed, rejected or failed", _of("status")),
    "stage": (str, "the last stage that ran", _of("stage")),
    "cause": (str, "why it did not pass", _of("cause")),
    "reason": (str, "the same in words", _of("reason")),
    "ratio": (float, "the library's time over the kernel's, median over rounds", _of("measurement.ratio")),
    "ratio_low": (float, "lower end of its 95% interval", _of("measurement.ratio_low")),
    "ratio_high": (float, "upper end of its 95% interval", _of("measurement.ratio_high")),
    "stable": (bool, "whether the interval became narrow enough", _of("measurement.stable")),
    "time_ms": (float, "one launch, milliseconds, median", _of("measurement.time_ms")),
    "tflops": (float, "10^12 floating-point operations a second", _of("measurement.tflops")),
    "baseline": (str, "the library's call", _of("measurement.baseline")),
    "baseline_ms": (float, "one call of the library, milliseconds, median", _of("measurement.baseline_ms")),
    "baseline_tflops": (float, "10^12 floating-point operations a second", _of("measurement.baseline_tflops")),
    "timer": (str, "events, graph or host", _of("measurement.timer")),
    "rounds": (int, "pairs of blocks", _of("measurement.rounds")),
    "placements": (int, "placements of the buffers", _of("measurement.placements")),
    "launches_per_block": (int, "launches of the kernel in one block", _of("measurement.launches")),
    "device_s": (float, "time that measuring took, seconds", _of("measurement.seconds")),
    "max_abs_err": (float, "largest absolute error of all trials", _worst("max_abs_err")),
    "rel_err": (float, "largest norm-wise relative error of all trials", _worst("rel_err")),
    "sm_clock_mhz": (float, "SM clock while it was measured, MHz, median", _of("measurement.telemetry.sm_clock_mhz")),
    "power_w": (float, "power, watts, median", _of("measurement.telemetry.power_w")),
    "temperature_c": (float, "temperature, degrees Celsius, largest", _of("measurement.telemetry.temperature_c")),
    "throttle": (str, "reasons for which the clock was lowered", _of("measurement.telemetry.throttle")),
    "registers_per_thread": (int, "of the kernel that computes", _kernel("registers")),
    "spill_bytes_per_thread": (int, "stores and loads of spilled registers, bytes", _kernel("spill_bytes")),
    "shared_bytes_per_block": (int, "static and dynamic shared memory, bytes", _kernel("shared_bytes")),
    "threads_per_block": (int, "threads of a block", _kernel("threads")),
    "blocks_per_sm": (int, "blocks that an SM holds at once", _kernel("blocks_per_sm")),
    "device": (str, "the GPU's or CPU's name", _of("environment.device")),
    "device_uuid": (str, "which chip", _of("environment.device_uuid")),
    "driver": (str, "version of the NVIDIA driver", _of("environment.driver")),
    "torch": (str, "version", _of("environment.torch")),
    "tilelang": (str, "version", _of("environment.tilelang")),
    "image": (str, "the container's image, if any", _of("environment.image")),
    "forced": (bool, "whether the key is not the device's", _of("environment.forced")),
    "source_sha256": (str, "hash of the iteration's file", _of("source_sha256")),
    "families_sha256": (str, "hash of what it imports", _of("families_sha256")),
    "judge_sha256": (str, "hash of the judge", _of("environment.judge_sha256")),
    "operator": (str, "the problem's operator", _of_problem("operator")),
    "input_dtype": (str, "dtype of the inputs", _of_problem("input")),
    "output_dtype": (str, "dtype of the output", _of_problem("output")),
    **_dimensions(),
    "flops": (int, "floating-point operations of one launch", _of_problem("flops")),
    "bytes": (int, "each input once and the output once", _of_problem("bytes")),
    "board": (int, "0: on the problem's newest board, 1: the one before; empty: on none", lambda each: each.board),
    "rank": (int, "its rank on that board", _of_row("rank")),
    "decision": (str, "KEEP: it leads, or was a step of its ladder; else DISCARD", _of_row("decision")),
    "stale": (str, "what has changed since: source, family, judge", _of_row("stale")),
    "bound": (str, "what bounds it, by its profile", _of_row("bound")),
    "gbs": (float, "the problem's bytes over the time, 10^9 bytes a second", _of_row("gbs")),
    "of_copy": (float, "that over the bandwidth of a copy, if memory-bound", _of_row("of_copy")),
    "behind": (float, "the leader's ratio over its own, if a play-off decided", _of_row("behind")),
    "kind": (str, "iteration or opponent", lambda each: _plain(each.record.kind or RowKind.ITERATION)),
    "vs_best": (float, "the strongest opponent's time over the kernel's, measured as a pair", _of_row("vs_best")),
    "vs_best_low": (float, "lower end of its 95% interval", _of_row("vs_best_low")),
    "vs_best_high": (float, "upper end of its 95% interval", _of_row("vs_best_high")),
    "best_opponent": (str, "that opponent", _of_row("best_opponent")),
    "cublas": (str, "version of cuBLAS as loaded", _of("environment.cublas")),
    "cublaslt": (str, "version of cuBLASLt as loaded", _of("environment.cublaslt")),
    "cudnn": (str, "version of cuDNN as loaded", _of("environment.cudnn")),
    "nvrtc": (str, "version of NVRTC as loaded", _of("environment.nvrtc")),
    "sustained_record": (str, "short id of its record at the power limit", _of_row("sustained_record")),
    "sustained_rank": (int, "its rank at the power limit", _of_row("sustained_rank")),
    "sustained_ratio": (float, "the library's time over the kernel's, each alone", _of_row("sustained_ratio")),
    "sustained_ratio_low": (float, "lower end of its 95% interval", _of_row("sustained_ratio_low")),
    "sustained_ratio_high": (float, "upper end of its 95% interval", _of_row("sustained_ratio_high")),
    "sustained_tflops": (float, "throughput at the power limit, 10^12 flops a second", _of_row("sustained_tflops")),
    "sustained_sm_mhz": (float, "SM clock there, MHz", _of_row("sustained_sm_mhz")),
    "sustained_power_w": (float, "power of the board there, W", _of_row("sustained_power_w")),
    "joules_per_launch": (float, "energy of one launch there, J", _of_row("joules_per_launch")),
    "pj_per_flop": (float, "that over the flops of a launch, pJ", _of_row("pj_per_flop")),
    "of_ceiling": (float, "sustained_tflops over the chip's power ceiling", _of_row("of_ceiling")),
    "sustained_behind": (float, "like behind, by a play-off at the power limit", _of_row("sustained_behind")),
    "sustained_vs_best": (float, "vs_best at the power limit", _of_row("sustained_vs_best")),
    "sustained_vs_best_low": (float, "lower end of its 95% interval", _of_row("sustained_vs_best_low")),
    "sustained_vs_best_high": (float, "upper end of its 95% interval", _of_row("sustained_vs_best_high")),
    "sustained_best_opponent": (str, "the strongest opponent there", _of_row("sustained_best_opponent")),
}


def columns() -> dict[str, tuple[type, str, _Read]]:
    """COLUMNS, and after them the dimensions that only a repository's own operators have."""
    return COLUMNS | {name: column for name, column in _dimensions().items() if name not in COLUMNS}


def rows(records: Iterable[Record], boards: Iterable[Board] = ()) -> list[dict[str, _Value]]:
    """One row per record, in their order, each with its place on the boards of its GPU."""
    number = Counter[str]()
    shown: dict[str | None, tuple[BoardRow, int]] = {}
    for board in boards:
        shown |= {row.record: (row, number[board.problem]) for row in (*board.rows, *board.opponents)}
        number[board.problem] += 1
    exported = (_Exported(each, parse_shape_key(each.shape_key), *shown.get(each.id, (None, None))) for each in records)
    given = columns()
    return [{name: read(each) for name, (_, _, read) in given.items()} for each in exported]


def chosen(named: str | None, output: Path | None) -> str:
    """The named format, or else that of the file's suffix, or else CSV. Raises UsageError."""
    guess = output.suffix.removeprefix(".") if output is not None else ""
    found = named or (guess if guess in FORMATS else FORMATS[0])
    if found not in FORMATS:
        raise UsageError(f"--format '{found}' is not {', '.join(FORMATS)}")
    if found == "parquet" and output is None:
        raise UsageError("Parquet cannot go to a terminal; name a file with --output records.parquet")
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


def dictionary() -> str:
    """The columns as a Markdown table."""
    lines = ["| column | type | what it holds |", "|---|---|---|"]
    lines += [f"| `{name}` | {kind.__name__} | {text} |" for name, (kind, text, _) in COLUMNS.items()]
    return "\n".join(lines) + "\n"


def _csv(table: list[dict[str, _Value]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns())
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
