"""Dynamic kernels: one source with symbolic dimensions at several bindings, with its mean and its slowest."""

import math
from collections.abc import Mapping, Sequence

import msgspec

from harness.boards.board import Board, BoardRow, newest
from harness.catalog import names
from harness.judge.facts.problem import parse_shape_key
from harness.machine.table import bounded, paragraph
from harness.records.base import Status


class Binding(msgspec.Struct, frozen=True):
    """The kernel's row at one problem; ``calls`` weigh it."""

    problem: str
    iteration: str
    calls: float
    status: str
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None


class DynamicKernel(msgspec.Struct, frozen=True):
    """One dynamic kernel over its bindings, slowest first; those without a ratio come before.

    ``ratio`` is the geometric mean over the bindings with a ratio, weighed by calls. Bindings are independent.
    """

    gpu: str
    model: str
    dynamic: tuple[str, ...]
    source_sha256: str
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    bindings: tuple[Binding, ...]


def dynamic_kernels(boards: Sequence[Board], calls: Mapping[str, float] | None = None) -> tuple[DynamicKernel, ...]:
    """The dynamic kernels with two bindings or more on the newest boards; without ``calls`` all weigh alike."""
    chosen = (board for board in newest(boards).values() if calls is None or board.problem in calls)
    found: dict[tuple[object, ...], list[BoardRow]] = {}
    for row in (row for board in chosen for row in board.rows if row.dynamic):
        static = parse_shape_key(row.problem).static(row.dynamic or ())
        found.setdefault((row.gpu, row.model, row.source_sha256, row.families_sha256, static), []).append(row)
    return tuple(_kernel(rows, calls or {}) for rows in found.values() if len(rows) > 1)


def _kernel(rows: Sequence[BoardRow], calls: Mapping[str, float]) -> DynamicKernel:
    bindings = sorted((_binding(row, calls) for row in rows), key=lambda each: (each.ratio or 0.0, each.problem))
    first, (ratio, low, high) = rows[0], _mean(bindings)
    named = first.gpu, first.model, first.dynamic or (), first.source_sha256
    return DynamicKernel(*named, ratio, low, high, tuple(bindings))


def _binding(row: BoardRow, calls: Mapping[str, float]) -> Binding:
    figures = (row.ratio, row.ratio_low, row.ratio_high) if row.status == Status.PASSED else (None, None, None)
    return Binding(row.problem, row.iteration, calls.get(row.problem, 1.0), row.status, *figures)


def _mean(bindings: Sequence[Binding]) -> tuple[float, float, float] | tuple[None, None, None]:
    """The geometric mean and its interval: weighed relative half-widths add up by their squares.

    Where an interval reaches 0, so does that of the mean.
    """
    found = [
        (
            each.calls,
            math.log(each.ratio),
            math.log(each.ratio_low) if each.ratio_low > 0 else -math.inf,
            math.log(each.ratio_high),
        )
        for each in bindings
        if each.calls and each.ratio and each.ratio_low is not None and each.ratio_high
    ]
    every = math.fsum(calls for calls, *_ in found)
    if not every:
        return None, None, None
    middle = math.fsum(calls * mid for calls, mid, _, _ in found) / every
    below = math.hypot(*(calls * (mid - low) / every for calls, mid, low, _ in found))
    above = math.hypot(*(calls * (high - mid) / every for calls, mid, _, high in found))
    return math.exp(middle), math.exp(middle - below), math.exp(middle + above)


def told(kernels: Sequence[DynamicKernel]) -> str:
    """One paragraph for each kernel."""
    return "\n".join(paragraph(_sentence(each), "  ") for each in kernels)


def _sentence(kernel: DynamicKernel) -> str:
    tags = {parsed[1] for each in kernel.bindings if (parsed := names.parsed(each.iteration))}
    said = f"{', '.join(sorted(tags))} ({kernel.model}), one kernel for any {', '.join(kernel.dynamic)}"
    said += f", at {len(kernel.bindings)} bindings"
    measured = [each for each in kernel.bindings if each.ratio is not None]
    if kernel.ratio is not None:
        slowest = measured[0]
        said += f": mean {bounded(kernel)}, slowest {bounded(slowest)} at {slowest.problem}"
    missing = [f"{each.problem} ({each.status})" for each in kernel.bindings if each.ratio is None]
    return said + (f"; no ratio at {', '.join(missing)}" if missing else "")
