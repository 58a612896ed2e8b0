"""What may have failed by the machine's fault is judged once more, when all else has been judged."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from harness.judge.facts.gpu import Gpu
from harness.judge.fault_attribution import HasCause, is_retried

TURNS: Final = 2

Item = TypeVar("Item")
Outcome = TypeVar("Outcome", bound=HasCause)


def retrying(
    work: Sequence[Item], judge: Callable[[Sequence[Item]], Iterable[tuple[Item, Outcome]]], gpu: Gpu
) -> Iterator[tuple[Item, Outcome, bool]]:
    """Each outcome of ``judge``, and whether it counts; where it does not, the item comes again at the end."""
    for turn in range(TURNS):
        again: list[Item] = []
        for each, outcome in judge(work) if work else ():
            counts = turn + 1 == TURNS or not is_retried(outcome.cause, gpu)
            if not counts:
                again.append(each)
            yield each, outcome, counts
        work = again
