"""The state of a ladder: what leads, what was tried, what to try next, and what it has cost."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from harness.authoring import ideas
from harness.boards import leaderboard
from harness.boards.board import KEEP, NOT_MEASURED, BoardRow
from harness.boards.power import PowerBound
from harness.catalog.tree import Iteration, Selection, Tree
from harness.judge import builds, contract
from harness.machine import hints
from harness.machine.table import bounded, paragraph
from harness.records.base import Status, of_code
from harness.records.builds import BuildRecord
from harness.records.profiles import Bound, Confidence, ProfileRecord
from harness.records.results import Record
from harness.records.store import read

_OF_ROW: Final = ("status", "ratio", "ratio_low", "ratio_high", "time_ms", "stale")


class LadderStep(msgspec.Struct, frozen=True):
    """One iteration. ``status`` is passed, rejected, failed or not measured, and ``reason`` says why it did not pass.

    ``ratio`` is the library's time over its own, with a 95% interval. ``decision`` is KEEP where it leads, or
    where the whole interval lies above that of the best before it. ``stale`` names what has changed since it was
    measured: source, family or judge. ``attempts_left`` is how many more of its sources may fail to compile.
    """

    iteration: str
    number: int
    tag: str
    status: str
    decision: str | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    time_ms: float | None
    stale: tuple[str, ...]
    parent: str | None
    idea: str | None
    config: str | None
    reason: str | None
    attempts_left: int


class LadderBound(msgspec.Struct, frozen=True):
    """What bounds an iteration, from the newest profile; ``current`` where that profile is of its present source."""

    iteration: str
    bound: Bound
    confidence: Confidence | None
    limiter: str | None
    evidence: tuple[str, ...]
    current: bool


class NumberedIdea(msgspec.Struct, frozen=True):
    """One idea of the parent's profile, under the number that ``new --idea`` takes.

    ``config`` holds the levers to change. ``tried``: another iteration of the ladder pins this configuration.
    """

    number: int
    tag: str
    sentence: str
    config: dict[str, int | str | bool]
    tried: bool


class LadderState(msgspec.Struct, frozen=True):
    """The ladder of one problem, under one model's name, on one GPU key.

    ``best`` is the last iteration that the board keeps. ``parent`` is the one to start from: the best, or the fastest
    kernel where the best is the library, or the newest that was not refused. ``attempts`` is how many sources of one
    iteration may fail to compile. Over all records, ``measuring_seconds`` is device time, and ``building_seconds`` is
    the compilers' time. ``power`` is of the best, or else of the first at the power limit, where that limit lowers its
    clock.
    """

    gpu: str
    shape_key: str
    model: str
    best: LadderStep | None
    parent: str | None
    bound: LadderBound | None
    ideas: tuple[NumberedIdea, ...]
    iterations: tuple[LadderStep, ...]
    attempts: int
    measuring_seconds: float
    building_seconds: float
    power: PowerBound | None = None


def state(tree: Tree, gpu: str, shape: str, model: str, attempts: int) -> tuple[LadderState, list[str]]:
    """The state, and what could not be read. Raises UsageError for a shape or a model that cannot be one."""
    selection = Selection(shape, model)
    iterations, _ = tree.scan(gpu, selection)
    boards, problems = leaderboard.boards(tree, gpu, selection)
    rows: dict[str, BoardRow] = {}
    for board in boards:  # the newest environment comes first
        for row in board.rows:
            rows.setdefault(row.iteration, row)
    built, more = read(tree.builds(gpu, shape, model), BuildRecord)
    records, _ = read(tree.records(gpu, shape, model), Record)
    steps = tuple(
        _step(
            each, rows[each.name], _newest(tree, each, built), attempts - len(builds.failed_sources(built, each.number))
        )
        for each in iterations
    )
    best, parent = _leaders(steps, list(rows))
    start = next((each for each in iterations if each.name == parent), None)
    found = LadderState(
        gpu=gpu,
        shape_key=shape,
        model=model,
        best=best,
        parent=parent,
        bound=_bound(tree, iterations),
        ideas=tuple(_ideas(tree, start)),
        iterations=steps,
        attempts=attempts,
        measuring_seconds=round(sum(each.measurement.seconds for each in records if each.measurement), 3),
        building_seconds=round(sum(each.build.seconds for each in built if each.build), 3),
        power=_power(rows, best),
    )
    return found, [*problems, *more]


def _power(rows: Mapping[str, BoardRow], best: LadderStep | None) -> PowerBound | None:
    name = best.iteration if best else None
    first = sorted(rows.values(), key=lambda row: (row.iteration != name, -(row.sustained_ratio or 0)))
    return next(filter(None, map(PowerBound.of, first)), None)


def _newest(tree: Tree, iteration: Iteration, built: Sequence[BuildRecord]) -> BuildRecord | None:
    """The newest build of an iteration as it is."""
    return next(of_code(built, iteration.name, *tree.hashes(iteration)), None)


def _step(iteration: Iteration, row: BoardRow, build: BuildRecord | None, attempts_left: int) -> LadderStep:
    """An iteration as the board has it; where it has no record yet, as its build or its source says."""
    idea, config, parent, reason = row.idea, row.config, row.parent, row.reason
    found = {name: getattr(row, name) for name in _OF_ROW}
    if row.status == NOT_MEASURED:
        if build is not None and build.cause is not None:
            found["status"], reason = build.status, build.reason
        try:
            terms = contract.check(iteration)
            idea, config, parent = terms.idea, terms.config, terms.parent
        except contract.Breach as breach:
            reason = f"contract: {breach}"
    return LadderStep(
        iteration=iteration.name,
        number=iteration.number,
        tag=iteration.tag,
        decision=row.decision if row.ratio is not None or row.status != Status.PASSED else None,
        **found,
        parent=parent,
        idea=idea,
        config=config,
        reason=reason,
        attempts_left=max(0, attempts_left),
    )


def _leaders(steps: tuple[LadderStep, ...], board: Sequence[str]) -> tuple[LadderStep | None, str | None]:
    """The best iteration, and the parent of the next one, by their order on the board.

    The figure of an older source counts for neither.
    """
    measured = [each for each in steps if each.ratio is not None and each.status == Status.PASSED]
    current = [each for each in measured if "source" not in each.stale]
    current.sort(key=lambda each: board.index(each.iteration))
    best = next((each for each in current if each.decision == KEEP), None)
    if best is not None and best.number > 0:
        return best, best.iteration
    fastest = next((each.iteration for each in current if each.number > 0), None)
    usable = [each for each in steps if each.status in (Status.PASSED, NOT_MEASURED) and each.reason is None]
    sound = [each.iteration for each in steps if each.number == 0 or each in usable]
    return best, fastest or (sound[-1] if sound else None)


def _bound(tree: Tree, iterations: list[Iteration]) -> LadderBound | None:
    if not iterations:
        return None
    first = iterations[0]
    profiles, _ = read(tree.profiles(*first.ladder), ProfileRecord)
    newest = next((each for each in reversed(profiles) if each.bound is not None), None)
    if newest is None or newest.bound is None:
        return None
    current = any(each.name == newest.iteration and ideas.profile_of(tree, each) == newest for each in iterations)
    return LadderBound(
        newest.iteration, newest.bound, newest.confidence, newest.limiter, newest.evidence, current=current
    )


def _ideas(tree: Tree, parent: Iteration | None) -> Iterator[NumberedIdea]:
    profile = ideas.profile_of(tree, parent) if parent is not None else None
    if parent is None or profile is None:
        return
    left = ideas.untried(tree, parent, profile.ideas)
    for number, idea in enumerate(profile.ideas, start=1):
        yield NumberedIdea(number, idea.tag, idea.sentence, idea.config, tried=idea not in left)


def page(found: LadderState) -> str:
    """The state for a terminal."""
    lines = [f"{found.shape_key} on {found.gpu}, model {found.model}", ""]
    best, bound = found.best, found.bound
    lines.append(f"best    {_outcome(best)}" if best else "best    none yet")
    lines.append(f"parent  {found.parent or 'none: new writes iter000 first'}")
    if bound is not None:
        limiter = f", {bound.limiter}" if bound.limiter else ""
        age = "" if bound.current else ", of an older source"
        lines.append(f"bound   {bound.bound}{limiter}; profile of {bound.iteration}{age}")
    if found.power is not None:
        lines.append(f"power   {found.power.iteration} is {found.power.sentence}; {found.power.clock}")
    lines.append(f"spent   {found.measuring_seconds:.1f} s measuring, {found.building_seconds:.1f} s building")
    if found.ideas:
        lines += ["", f"ideas for {hints.program()} new --from {found.parent} --idea N"]
        lines += [f"{each.number}  {each.sentence}{' (tried)' if each.tried else ''}" for each in found.ideas]
    if found.iterations:
        lines += ["", "tried"]
    for each in found.iterations:
        left = (
            f"; {each.attempts_left} of {found.attempts} attempts left" if each.attempts_left < found.attempts else ""
        )
        lines += [f"{_outcome(each)}{left}", *(f"    {text}" for text in (each.idea, each.config) if text)]
    return "\n".join(paragraph(line, line[: len(line) - len(line.lstrip())] or "    ") for line in lines)


def _outcome(step: LadderStep) -> str:
    stale = f", stale: {', '.join(step.stale)}" if step.stale else ""
    if step.ratio is None or step.status != Status.PASSED:
        return f"{step.iteration}: {step.status}{f': {step.reason}' if step.reason else ''}{stale}"
    return f"{step.iteration}: {step.decision} {bounded(step)}{stale}"
