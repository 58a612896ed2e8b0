"""Measurements for the verbs: what takes part, which rows make the exit code 1, and the question of a bisection."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from harness.boards.comparison import SIZE, shows
from harness.catalog.tree import Iteration
from harness.errors import UsageError
from harness.extras.versus.duel import Contender, Match
from harness.extras.versus.environment import PythonEnvironment
from harness.extras.versus.pairing import PairedRow, library_calls, measure
from harness.extras.versus.rows import STEADY, VersusRow
from harness.extras.versus.shift import Shift
from harness.judge.interpreters import retire
from harness.machine.progress import Reporter
from harness.runs.run import Plan

BY_CHANCE: Final = "both can make one code of it; these two builds differ by TileLang's addresses, as two of one may"
FAIL_ON: Final = rf"(slower|faster){SIZE}|broken|undecided", "slower:1%, faster:1%, undecided or broken"


def fails(limits: Mapping[str, float], row: PairedRow) -> bool:
    """Whether a row has one of the verdicts of FAIL_ON, and as large as it counts; *broken* always does."""
    least = limits.get(row.verdict, 0.0 if row.verdict is Shift.BROKEN else None)
    if least is None or row.ratio_low is None or row.ratio_high is None or row.verdict is Shift.UNDECIDED:
        return least is not None
    return shows(row.ratio_low, row.ratio_high, least, slower=row.verdict is Shift.SLOWER)


def measured(
    plan: Plan,
    iterations: Sequence[Iteration],
    old: PythonEnvironment,
    new: PythonEnvironment,
    reporter: Reporter,
    *,
    identical_too: bool = False,
) -> list[PairedRow]:
    """A row for each iteration, and for the library's call of each problem where torch or a library of CUDA differs."""
    first, second = (Contender.of(plan.tree, each, reporter) for each in (old, new))
    match = Match(plan, first, second, identical_too)
    calls = library_calls(iterations) if library_differs(old, new) else []
    return measure(match, [*calls, *iterations], reporter)


def library_differs(old: PythonEnvironment, new: PythonEnvironment) -> bool:
    """Whether the library's calls may differ: torch does, or a package that brings a library of CUDA."""
    held = [
        {name: version for name, version in each.versions.items() if name == "torch" or name.startswith("nvidia-")}
        for each in (old, new)
    ]
    return held[0] != held[1]


def changed(iterations: Sequence[Iteration], rows: Sequence[PairedRow]) -> list[Iteration]:
    """The iterations that are not the same in both: their code tells why."""
    keys = {each.key for each in rows if each.verdict is not Shift.SAME}
    return [each for each in iterations if each.key in keys]


def settled(paired: Sequence[PairedRow], builds: Sequence[VersusRow]) -> list[PairedRow]:
    """The rows; one that was not measured to be the same is, where both environments can make one code of it.

    TileLang places buffers and sets some barriers by addresses, and each environment has others. The swapped roles may
    give other code again, and disagree.
    """
    alike = {each.key for each in builds if each.verdict in STEADY and each.launched_alike}
    return [
        msgspec.structs.replace(row, verdict=Shift.SAME, reason=BY_CHANCE)
        if row.ratio is not None and row.verdict is not Shift.SAME and row.key in alike
        else row
        for row in paired
    ]


def is_worse(
    plan: Plan,
    iteration: Iteration,
    first: PythonEnvironment,
    later: PythonEnvironment,
    reporter: Reporter,
    builds: Callable[[], Sequence[VersusRow]],
) -> bool:
    """Whether a later environment runs an iteration slower, or not at all. Raises UsageError if that stays open.

    ``builds`` compares the code of both, which is asked for where the measurement says slower or leaves it open.
    """
    old, new = (Contender.of(plan.tree, each, reporter) for each in (first, later))
    match = Match(plan, old, new)
    try:
        (row,) = measure(match, [iteration], reporter)
    finally:
        retire(match.new.interpreter)
    if row.verdict in (Shift.SLOWER, Shift.UNDECIDED) and not plan.gpu.is_cpu:
        (row,) = settled([row], builds())
    if row.verdict in (Shift.UNDECIDED, Shift.FAILS):
        raise UsageError(f"{later.name}: {row.verdict}: {row.reason}")
    return row.verdict in (Shift.SLOWER, Shift.BROKEN)
