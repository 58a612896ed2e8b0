"""The report of builds: one flat row per iteration for programs, one table per problem for people."""

import math
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final

import msgspec

from harness.machine.table import figure, footnotes, table
from harness.records.builds import Build, KernelEvidence
from harness.records.results import Record


class BuildRow(msgspec.Struct, frozen=True):
    """One iteration's build. Figures are of the computing kernel, None where no tool tells them.

    Sizes are in bytes; spills and registers are per thread, shared memory and ``threads`` per block.
    """

    gpu: str
    problem: str
    model: str
    iteration: str
    status: str
    cause: str | None
    reason: str | None
    attempt: str | None
    seconds: float | None
    source_bytes: int | None
    cubin_bytes: int | None
    kernel: str | None
    registers: int | None
    spill_bytes: int | None
    static_shared_bytes: int | None
    dynamic_shared_bytes: int | None
    shared_bytes: int | None
    shared_limit_bytes: int | None
    blocks_per_sm: int | None
    limited_by: str | None
    threads: int | None
    grid: tuple[int, int, int] | None
    cluster: tuple[int, int, int] | None
    waves: float | None
    instructions: dict[str, int] | None
    tma_loads: int | None
    tma_stores: int | None
    warnings: tuple[str, ...]
    kernels: tuple[KernelEvidence, ...]


_OF_KERNEL: Final = tuple(name for name in BuildRow.__struct_fields__ if hasattr(KernelEvidence, name))


def row(record: Record) -> BuildRow:
    build, kernel = record.build, main_kernel(record.build)
    return BuildRow(
        gpu=record.gpu,
        problem=record.shape_key,
        model=record.model,
        iteration=record.iteration,
        status=record.status.value,
        cause=record.cause.value if record.cause else None,
        reason=record.reason,
        attempt=record.attempt,
        seconds=build.seconds if build else None,
        source_bytes=build.generated_bytes or None if build else None,
        cubin_bytes=build.cubin_bytes if build else None,
        kernel=kernel.name if kernel else None,
        warnings=build.warnings or () if build else (),
        kernels=build.kernels or () if build else (),
        **{name: getattr(kernel, name, None) for name in _OF_KERNEL},
    )


def main_kernel(build: Build | None) -> KernelEvidence | None:
    """The computing kernel, the first of a build."""
    return build.kernels[0] if build is not None and build.kernels else None


def tables(rows: Sequence[BuildRow]) -> str:
    """One table per problem, with the warnings below it."""
    return "\n".join(_table(name, list(group)) for name, group in groupby(rows, key=lambda each: each.problem))


def _table(problem: str, rows: list[BuildRow]) -> str:
    columns: dict[str, Callable[[BuildRow], str]] = {
        "iteration": lambda row: row.iteration,
        "registers": lambda row: figure(row.registers, "d"),
        "spills": lambda row: figure(row.spill_bytes, "d"),
        "shared": lambda row: figure(row.shared_bytes, "d"),
        "of": lambda row: figure(row.shared_limit_bytes, "d"),
        "blocks/SM": lambda row: figure(row.blocks_per_sm, "d"),
        "threads": lambda row: figure(row.threads, "d"),
        "blocks": lambda row: figure(math.prod(row.grid) if row.grid else None, "d"),
        "instructions": lambda row: ", ".join(f"{count} {name}" for name, count in (row.instructions or {}).items()),
        "TMA": lambda row: "" if row.tma_loads is None else f"{row.tma_loads}+{row.tma_stores}",
        "source": lambda row: figure(row.source_bytes, "d"),
        "cubin": lambda row: figure(row.cubin_bytes, "d"),
        "s": lambda row: figure(row.seconds, ".1f"),
    }
    body = table(
        rows,
        columns,
        right=[name for name in columns if name not in ("iteration", "instructions")],
        optional=("source", "cubin", "of", "TMA", "blocks", "threads", "s"),
        cut={"iteration": 16},
    )
    notes = footnotes((each.iteration, _notes(each)) for each in rows)
    return "\n".join([f"{problem} for {rows[0].gpu}", "", body, *(["", notes] if notes else []), ""])


def _notes(row: BuildRow) -> list[str]:
    return [*row.warnings, *([] if row.reason is None else [f"{row.status}: {row.reason}"])]
