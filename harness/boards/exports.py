"""Exports: records as a flat table for other tools, with units in the names of the columns."""

import csv
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.errors import InfrastructureError, UsageError, explained
from harness.evidence.report import main_kernel
from harness.records.results import Record, worst_error

FORMATS: Final = ("csv", "json", "parquet")

_Value = str | int | float | bool | None


def _measured(name: str) -> Callable[[Record], _Value]:
    return lambda record: getattr(record.measurement, name, None)


def _telemetry(name: str) -> Callable[[Record], _Value]:
    def value(record: Record) -> _Value:
        found: Any = getattr(record.measurement and record.measurement.telemetry, name, None)
        return ", ".join(found) if isinstance(found, tuple) else found

    return value


def _kernel(name: str) -> Callable[[Record], _Value]:
    return lambda record: getattr(main_kernel(record.build), name, None)


def _worst(name: str) -> Callable[[Record], _Value]:
    return lambda record: worst_error(record.verification, name)


def _of(name: str) -> Callable[[Record], _Value]:
    def value(record: Record) -> _Value:
        found = getattr(record, name)
        return found if found is None or isinstance(found, int | float) else str(found)

    return value


def _environment(name: str) -> Callable[[Record], _Value]:
    return lambda record: getattr(record.environment, name)


# Column -> (type, what it holds, how it is read); docs/reference/export.md is this table.
COLUMNS: Final[dict[str, tuple[type, str, Callable[[Record], _Value]]]] = {
    "record": (str, "short id of the record", lambda record: record.id),
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
    "ratio": (float, "the library's time over the kernel's, median over rounds", _measured("ratio")),
    "ratio_low": (float, "lower end of its 95% interval", _measured("ratio_low")),
    "ratio_high": (float, "upper end of its 95% interval", _measured("ratio_high")),
    "stable": (bool, "whether the interval became narrow enough", _measured("stable")),
    "time_ms": (float, "one launch, milliseconds, median", _measured("time_ms")),
    "tflops": (float, "10^12 floating-point operations a second", _measured("tflops")),
    "baseline": (str, "the library's call", _measured("baseline")),
    "baseline_ms": (float, "one call of the library, milliseconds, median", _measured("baseline_ms")),
    "baseline_tflops": (float, "10^12 floating-point operations a second", _measured("baseline_tflops")),
    "timer": (str, "events, graph or host", _measured("timer")),
    "rounds": (int, "pairs of blocks", _measured("rounds")),
    "placements": (int, "placements of the buffers", _measured("placements")),
    "launches_per_block": (int, "launches of the kernel in one block", _measured("launches")),
    "device_s": (float, "time that measuring took, seconds", _measured("seconds")),
    "max_abs_err": (float, "largest absolute error of all trials", _worst("max_abs_err")),
    "rel_err": (float, "largest norm-wise relative error of all trials", _worst("rel_err")),
    "sm_clock_mhz": (float, "SM clock while it was measured, MHz, median", _telemetry("sm_clock_mhz")),
    "power_w": (float, "power, watts, median", _telemetry("power_w")),
    "temperature_c": (float, "temperature, degrees Celsius, largest", _telemetry("temperature_c")),
    "throttle": (str, "reasons for which the clock was lowered", _telemetry("throttle")),
    "registers_per_thread": (int, "of the kernel that computes", _kernel("registers")),
    "spill_bytes_per_thread": (int, "stores and loads of spilled registers, bytes", _kernel("spill_bytes")),
    "shared_bytes_per_block": (int, "static and dynamic shared memory, bytes", _kernel("shared_bytes")),
    "threads_per_block": (int, "threads of a block", _kernel("threads")),
    "blocks_per_sm": (int, "blocks that an SM holds at once", _kernel("blocks_per_sm")),
    "device": (str, "the GPU's or CPU's name", _environment("device")),
    "device_uuid": (str, "which chip", _environment("device_uuid")),
    "driver": (str, "version of the NVIDIA driver", _environment("driver")),
    "torch": (str, "version", _environment("torch")),
    "tilelang": (str, "version", _environment("tilelang")),
    "image": (str, "the container's image, if any", _environment("image")),
    "forced": (bool, "whether the key is not the device's", _environment("forced")),
    "source_sha256": (str, "hash of the iteration's file", _of("source_sha256")),
    "families_sha256": (str, "hash of what it imports", _of("families_sha256")),
    "judge_sha256": (str, "hash of the judge", _environment("judge_sha256")),
}


def rows(records: list[Record]) -> list[dict[str, _Value]]:
    """One row per record, in their order."""
    return [{name: read(record) for name, (_, _, read) in COLUMNS.items()} for record in records]


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
    writer = csv.DictWriter(text, COLUMNS)
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
        raise UsageError("Parquet needs pyarrow: pip install 'tilebench[parquet]'") from None
    types: dict[type, Any] = {str: pyarrow.string(), int: pyarrow.int64(), bool: pyarrow.bool_()}
    types[float] = pyarrow.float64()
    schema = pyarrow.schema([(name, types[kind]) for name, (kind, _, _) in COLUMNS.items()])
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(table, schema=schema), buffer)
    return buffer.getvalue()
