"""The inner loop: a draft is judged anew each time that it, or a family of it, is saved."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Final

from harness.authoring.ideas import parse_config
from harness.catalog.tree import Iteration, Tree
from harness.errors import UsageError
from harness.judge.candidate import Referees
from harness.judge.facts.hashes import judge_as_it_is
from harness.judge.pipeline import advance
from harness.judge.stopping import Progress
from harness.machine import files, hints
from harness.machine.interruption import heed
from harness.machine.progress import Reporter
from harness.records.base import Status
from harness.records.results import Measurement, Record
from harness.records.store import read
from harness.runs.rehearsal import rehearse
from harness.runs.result_line import result_line
from harness.runs.run import Plan, figure, finish, judging, record_of, reusable

POLL_S: Final = 0.1


def watch(plan: Plan, reporter: Reporter) -> Iterator[Record]:
    """The outcome of the plan's one iteration, and of each source that is saved after it; ends by KeyboardInterrupt.

    The forkserver and the referee stay. The ratio of the first placement is told early, once the trials have passed.
    What ran is recorded as a bench records it, and its source is kept beside the records, since the next save
    overwrites it. What did not build leaves no record, and uses up no attempt. Raises UsageError for an iteration that
    has passed before, since it is never edited, and where the operator, its baseline or the judge changes meanwhile.
    """
    (draft,) = plan.iterations
    _require_draft(plan.tree, draft)
    plan = replace(plan, settings=replace(plan.settings, attempts=sys.maxsize))
    judge = judge_as_it_is(plan.tree.root, draft.problem.operator, plan.gpu)
    with judging(plan.tree, plan.gpu, plan.device, reporter) as referees:
        rehearse(plan.tree, plan.gpu, draft.problem)
        reporter.doing(f"filling the inputs of {draft.problem}")
        referees.seat(draft.problem)
        for noticed in _saves(plan.tree, draft):
            if judge_as_it_is(plan.tree.root, draft.problem.operator, plan.gpu) != judge:
                raise UsageError(f"{draft.problem.operator}, its baseline or the judge has changed; start watch again")
            reporter.doing(f"judging {draft}")
            early = _first(draft, noticed, reporter)
            made = reusable(plan, draft, plan.environment) or _judged(plan, draft, referees, reporter, early)
            if made is None:  # it was saved once more meanwhile
                continue
            line = "; ".join((result_line(made, plan.gpu), *_against_parent(plan.tree, draft, made)))
            reporter.finished(f"{line}; {time.monotonic() - noticed:.1f} s", advance=False)
            reporter.doing(f"waiting for a save of {draft.path.name}")
            yield made


def _require_draft(tree: Tree, draft: Iteration) -> None:
    if any(each.status is Status.PASSED for each in _records(tree, draft, draft.name)):
        ladder = f"--gpu {draft.gpu} --shape {draft.shape_key} --model {draft.model}"
        raise UsageError(
            f"{draft.name} has a record, and is never edited; begin a copy with "
            f"`{hints.program()} new {ladder} --from {draft.ordinal}`, then watch again"
        )


def _saves(tree: Tree, draft: Iteration) -> Iterator[float]:
    """When each new source was noticed, the present one first; a source counts once it is the same at two looks."""
    judged = seen = None
    noticed = time.monotonic()
    while True:
        heed()
        now = None
        with suppress(OSError):  # an editor replaces the file
            now = tree.hashes(draft)
        if now is not None and now == seen != judged:
            judged = now
            yield noticed
        elif now != seen:
            seen, noticed = now, time.monotonic()
        time.sleep(POLL_S)


def _first(draft: Iteration, noticed: float, reporter: Reporter) -> Callable[[Progress], None]:
    """Reports the figure of the first placement, which comes before there is an interval."""

    def told(progress: Progress) -> None:
        if progress.placements == 1:
            text = f"early     {draft}, {figure(progress)}; {time.monotonic() - noticed:.1f} s"
            reporter.finished(text, advance=False)

    return told


def _judged(
    plan: Plan, draft: Iteration, referees: Referees, reporter: Reporter, so_far: Callable[[Progress], None]
) -> Record | None:
    """The record of a source, which is kept; None where the file is not what it was a moment ago."""
    try:
        source, candidate = draft.path.read_bytes(), plan.enter(draft, referees)
    except OSError:  # an editor replaces the file
        return None
    try:
        if sha256(source).hexdigest() != candidate.source_sha256:
            return None
        rejection = advance(candidate, plan.upto, on_device=False)
        if rejection is not None:
            return record_of(plan, candidate, rejection)
        made, _ = finish(plan, candidate, None, reporter, so_far)
    finally:
        candidate.leave()
    files.put(kept_source(plan.tree, made), source)
    return made


def kept_source(tree: Tree, record: Record) -> Path:
    """Where a draft's source lies after a later save."""
    folder = tree.records(*record.ladder).parent / "drafts"
    return folder / f"{record.iteration}_{record.source_sha256[:10]}.py"


def _against_parent(tree: Tree, draft: Iteration, made: Record) -> Iterator[str]:
    """What differs from the parent: the ratio where both passed, and the pinned parameters."""
    if made.parent is None:
        return
    before = next(filter(_figure, reversed(_records(tree, draft, made.parent))), None)
    now = _figure(made)
    if before is None:
        if now is not None:
            yield f"{made.parent} is not measured"
        return
    then = _figure(before)
    if now is not None and then is not None:
        apart = now.ratio_low > then.ratio_high or now.ratio_high < then.ratio_low
        yield f"{now.ratio / then.ratio - 1:+.1%} against {made.parent}{'' if apart else ', undecided'}"
    own, others = parse_config(made.config or ""), parse_config(before.config or "")
    for name in sorted(own.keys() | others.keys()):
        if own.get(name) != others.get(name):
            yield f"{name} {others.get(name)} to {own.get(name)}"


def _figure(record: Record) -> Measurement | None:
    """What was measured of a source that passed; a source that changed meanwhile has a figure too, but no verdict."""
    return record.measurement if record.status is Status.PASSED else None


def _records(tree: Tree, draft: Iteration, name: str) -> list[Record]:
    """All records of one iteration in the draft's ladder."""
    path = tree.records(*draft.ladder)
    return [each for each in read(path, Record)[0] if each.iteration == name]
