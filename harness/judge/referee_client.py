"""Orders to the referee of a candidate, and the meaning of its answers."""

import time
from typing import Final, TypeVar

from harness.judge.candidate import Candidate, Rejection
from harness.judge.limits import complaint
from harness.judge.messages import Disqualified, Message, Trouble
from harness.judge.processes import Contestant, Ended, Referee
from harness.records.base import Cause
from harness.records.results import Trial

_NO_FRAME: Final = 'File "<unknown>"'  # of TileLang, for each frame of native code in a crash
ORDER_DEADLINE_S: Final = 300.0  # the referee has its own deadlines for both sides

M = TypeVar("M", bound=Message)


def ask(candidate: Candidate, referee: Referee, order: Message, kind: type[M]) -> M:
    """Give an order and wait for its answer. Raises Rejection for any other answer."""
    assert candidate.contestant is not None
    sides = [side for side in (candidate.contestant, candidate.baseline) if side is not None]
    try:
        referee.tell(order)
        answer = referee.hear(kind | Disqualified | Trouble, ORDER_DEADLINE_S, beside=sides)
    except Ended as ended:
        candidate.referees.leave()  # it is dead, or waits for an answer that never comes
        cause = ended.cause if ended.cause in (Cause.OUT_OF_MEMORY, Cause.OUT_OF_DISK) else Cause.REFEREE
        raise Rejection(cause, ended.reason) from None
    if isinstance(answer, Trouble):
        candidate.referees.leave()
        # The referee allocated its buffers before the contestant came, so the contestant took the rest.
        cause = Cause.OUT_OF_MEMORY if "OutOfMemory" in answer.reason else Cause.REFEREE
        raise Rejection(cause, f"the referee gave up: {answer.reason}")
    if isinstance(answer, Disqualified):
        reason = answer.reason
        if answer.cause is Cause.CRASH:
            reason = f"{reason}: the contestant {candidate.contestant.fate()}{last_words(candidate.contestant)}"
        raise Rejection(answer.cause, reason, answer.traceback)
    assert isinstance(answer, kind)
    return answer


def judge_trials(trials: tuple[Trial, ...]) -> None:
    """Raise Rejection for the first trial with a wrong result."""
    for trial in trials:
        wrong = complaint(trial)
        if wrong is not None:
            raise Rejection(Cause.WRONG_RESULT, wrong)


def last_words(contestant: Contestant) -> str:
    """The last line that a process printed, as the end of a sentence; empty if it printed none."""
    time.sleep(0.05)  # the last line of a dying process may still be on its way
    said = contestant.output().splitlines()
    lines = [line for line in said if line.strip() and not line.lstrip().startswith(_NO_FRAME)]
    return f" (it printed: {lines[-1][:160]})" if lines else ""
