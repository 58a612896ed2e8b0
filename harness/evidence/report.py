"""The report of builds: one flat row per iteration for programs, one table per problem for people."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

import msgspec
from tabulate import tabulate

from harness.records.builds import Build, KernelEvidence
from harness.records.results import Record

HEADERS: Final = (
    *("iteration", "registers", "spills", "shared", "of", "blocks/SM", "threads", "blocks"),
    *("instructions", "TMA", "source", "cubin", "s"),
)


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
    """The build of a record."""
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
    body = tabulate(
        [_cells(each) for each in rows],
        headers=HEADERS,
        disable_numparse=True,
        colalign=("left", *["right"] * 7, "left", *["right"] * 4),
    )
    notes = [f"  {each.iteration}: {warning}" for each in rows for warning in each.warnings]
    notes += [f"  {each.iteration}: {each.status}: {each.reason}" for each in rows if each.reason is not None]
    return "\n".join([f"{problem} for {rows[0].gpu}", "", body, *([""] if notes else []), *notes, ""])


def _cells(row: BuildRow) -> tuple[str, ...]:
    limit = row.shared_limit_bytes
    tma = None if row.tma_loads is None else f"{row.tma_loads}+{row.tma_stores}"
    instructions = ", ".join(f"{count} {name}" for name, count in (row.instructions or {}).items())
    blocks = None if row.grid is None else row.grid[0] * row.grid[1] * row.grid[2]
    figures = (
        *(row.registers, row.spill_bytes, row.shared_bytes, limit, row.blocks_per_sm, row.threads, blocks),
        *(instructions, tma, row.source_bytes, row.cubin_bytes),
    )
    seconds = "" if row.seconds is None else f"{row.seconds:.1f}"
    return (row.iteration, *("" if each is None else str(each) for each in figures), seconds)
