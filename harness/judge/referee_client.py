"""What the referee of a candidate is asked, and what its answers mean."""

import time
from typing import Final, TypeVar

from harness.judge.candidate import Candidate, Rejection
from harness.judge.limits import complaint
from harness.judge.messages import Message, Trouble, Verdict
from harness.judge.processes import Contestant, Ended, Referee
from harness.records.results import Cause, Trial

ORDER_DEADLINE_S: Final = 300.0  # of the referee, which has deadlines of its own towards both sides

M = TypeVar("M", bound=Message)


def ask(candidate: Candidate, referee: Referee, order: Message, kind: type[M]) -> M:
    """Give an order and wait for its answer; raises Rejection for any other."""
    assert candidate.contestant is not None
    try:
        referee.tell(order)
        answer = referee.hear(kind | Verdict | Trouble, ORDER_DEADLINE_S, beside=candidate.contestant)
    except Ended as ended:
        candidate.referees.leave()  # dead, or still waiting for an answer that will not come
        cause = ended.cause if ended.cause in (Cause.OUT_OF_MEMORY, Cause.OUT_OF_DISK) else Cause.REFEREE
        raise Rejection(cause, ended.reason) from None
    if isinstance(answer, Trouble):
        candidate.referees.leave()
        full = "OutOfMemory" in answer.reason  # its own buffers were there before: what is new took the rest
        cause = Cause.OUT_OF_MEMORY if full else Cause.REFEREE
        raise Rejection(cause, f"the referee gave up: {answer.reason}")
    if isinstance(answer, Verdict):
        reason = answer.reason
        if answer.cause is Cause.CRASH:
            reason = f"{reason}: the contestant {candidate.contestant.fate()}{last_words(candidate.contestant)}"
        raise Rejection(answer.cause, reason)
    assert isinstance(answer, kind)
    return answer


def judge_trials(trials: tuple[Trial, ...]) -> None:
    """Raise Rejection for the first trial whose result is wrong."""
    for trial in trials:
        wrong = complaint(trial)
        if wrong is not None:
            raise Rejection(Cause.WRONG_RESULT, wrong)


def last_words(contestant: Contestant) -> str:
    """What a process printed last, as the end of a sentence; empty where it was silent."""
    time.sleep(0.05)  # a dying process's last line may still be on its way
    lines = [line for line in contestant.output().splitlines() if line.strip()]
    return f" (it printed: {lines[-1][:160]})" if lines else ""
