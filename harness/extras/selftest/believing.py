"""What a rejected sample would have gained: its ratio by a referee that compares no result and doubts no clock."""

from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Final

from harness.extras.selftest.scratch_tree import SampleJudge
from harness.judge.candidate import Candidate, Referees, Rejection
from harness.judge.child.brief import Brief
from harness.judge.messages import Measure, Measured, Pace, Paced
from harness.judge.pipeline import build, meet
from harness.judge.processes import Referee
from harness.judge.referee_client import ask
from harness.records.base import Cause

PLACEMENTS: Final = 2
ROUNDS: Final = 3


def run_believing_referee(brief: Brief, parent: Connection) -> None:
    """Body of the process."""
    from harness.judge.child import referee

    referee._judge_sketch = lambda *_: None
    referee.referee(brief, parent)


class BelievingReferee(Referee):
    """A referee that does not look at outputs."""

    body = staticmethod(run_believing_referee)


def believed_ratio(judge: SampleJudge, path: Path) -> float | None:
    """The median ratio of a few blocks, without verification; None for a source that gets no such blocks."""
    referees = Referees(judge.tree.root, judge.gpu, kind=BelievingReferee)
    candidate = judge.enter(path, referees)
    try:
        _build(candidate)
        referee = meet(candidate)
        ask(candidate, referee, Pace(), Paced)
        orders = [Measure(ROUNDS, placement) for placement in range(PLACEMENTS)]
        blocks = [block for order in orders for block in ask(candidate, referee, order, Measured).blocks]
    except Rejection:
        return None
    finally:
        candidate.leave()
        referees.leave()
    return median(block.baseline_ms / block.contestant_ms for block in blocks) if blocks else None


def _build(candidate: Candidate) -> None:
    try:
        build(candidate)
    except Rejection as rejection:
        if rejection.cause is not Cause.NOT_PINNED:
            raise
