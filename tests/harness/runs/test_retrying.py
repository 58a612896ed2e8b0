"""What is judged once more: only what the machine may have spoilt, once, and after all the rest."""

from collections.abc import Iterator, Sequence
from types import SimpleNamespace

import pytest

from harness.catalog import gpus
from harness.records.base import Cause
from harness.runs.retrying import retrying

MACHINE, WRONG, CLOCK, FINE = Cause.REFEREE, Cause.WRONG_RESULT, Cause.CLOCK, None
Causes = dict[str, list[Cause | None]]


def told(causes: Causes, gpu: str = "cpu") -> list[tuple[str, Cause | None, bool]]:
    """What is said of items, each with the causes of its outcomes in order."""

    def judge(work: Sequence[str]) -> Iterator[tuple[str, SimpleNamespace]]:
        for each in work:
            yield each, SimpleNamespace(cause=causes[each].pop(0))

    found = retrying(list(causes), judge, gpus.find(gpu))
    return [(each, outcome.cause, counts) for each, outcome, counts in found]


def test_the_machines_fault_comes_again_at_the_end() -> None:
    said = told({"a": [MACHINE, FINE], "b": [WRONG], "c": [FINE]})
    assert said == [("a", MACHINE, False), ("b", WRONG, True), ("c", FINE, True), ("a", FINE, True)]


def test_a_second_fault_counts() -> None:
    assert told({"a": [MACHINE, MACHINE]}) == [("a", MACHINE, False), ("a", MACHINE, True)]


@pytest.mark.parametrize(("gpu", "outcomes"), [("h200", 2), ("cpu", 1)])
def test_a_clock_is_doubted_on_a_gpu_alone(gpu: str, outcomes: int) -> None:
    assert len(told({"a": [CLOCK, CLOCK]}, gpu)) == outcomes


def test_nothing_is_judged_of_nothing() -> None:
    assert told({}) == []
