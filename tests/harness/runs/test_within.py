"""A run of limited time: what comes first, and what begins no more. The clock is a fake."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.catalog.tree import Iteration
from harness.judge.facts.problem import parse_shape_key
from harness.runs.within import ENDLESS, LEAST_SHARE_S, Deadline, by_worth

FIRST, SECOND = "matmul_f32fp32_32x32x32", "matmul_f32fp32_64x64x64"


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_nothing_begins_that_would_not_end_in_time(clock: Clock) -> None:
    deadline = Deadline.within(1, clock)
    begun = []
    for each in deadline.while_room(range(100), usual_s=5):
        begun.append(each)
        clock.spend(8)
    assert begun == [*range(7)]
    assert deadline.left_s() == 4


def test_the_median_is_the_estimate_so_one_slow_item_ends_no_run(clock: Clock) -> None:
    deadline = Deadline.within(1, clock)
    took, begun = iter([4, 4, 30, *[4] * 100]), []
    for each in deadline.while_room(range(100), usual_s=5):
        clock.spend(next(took))
        begun.append(each)
    assert len(begun) == 8


def test_before_one_is_measured_the_usual_time_decides(clock: Clock) -> None:
    deadline = Deadline.within(0.5, clock)
    assert [*deadline.while_room("ab", usual_s=31)] == []
    assert [*deadline.while_room("ab", usual_s=30)] == ["a", "b"]


def test_what_costs_nothing_is_always_given_and_is_no_estimate(clock: Clock) -> None:
    deadline = Deadline.within(0.5, clock)
    given = []
    for each in deadline.while_room("aaBaaaBaBa", usual_s=10, costs=str.isupper):
        given.append(each)
        clock.spend(14 * each.isupper())
    assert "".join(given) == "aaBaaaBa"


def test_an_item_that_was_waited_for_too_long_is_not_begun(clock: Clock) -> None:
    deadline = Deadline.within(1, clock)

    def built() -> Iterator[str]:
        yield "early"
        clock.spend(58)
        yield "late"

    begun = []
    for each in deadline.while_room(built(), usual_s=5):
        clock.spend(3)
        begun.append(each)
    assert begun == ["early"]


def test_without_a_limit_there_is_no_end(clock: Clock) -> None:
    assert Deadline.within(None, clock) == ENDLESS
    assert not ENDLESS.is_set
    assert ENDLESS.left_s() is None
    assert ENDLESS.share_s(3, 1) is None
    assert ENDLESS.has_room(1e9)
    assert [*ENDLESS.while_room(range(9), 1e9)] == [*range(9)]


def test_what_is_left_never_falls_below_nothing(clock: Clock) -> None:
    deadline = Deadline.within(1, clock)
    assert deadline.left_s(besides_s=10) == 50
    clock.spend(100)
    assert deadline.left_s() == 0


@pytest.mark.parametrize(
    ("problems", "at_once", "share_s"),
    [(10, 2, 240), (2, 2, 1200), (1, 2, 1200), (57, 1, LEAST_SHARE_S)],
)
def test_a_problem_gets_an_equal_share_but_enough_to_start(
    clock: Clock, problems: int, at_once: int, share_s: float
) -> None:
    deadline = Deadline.within(20, clock)
    assert deadline.share_s(problems, at_once) == share_s
    clock.spend(1140)
    assert deadline.share_s(problems, at_once) == 60


def ladder(shape: str, *numbers: int) -> list[Iteration]:
    return [Iteration(Path(), "cpu", parse_shape_key(shape), "me", each, "tag") for each in numbers]


def test_leaders_and_what_was_never_measured_come_first_and_a_problem_stays_together() -> None:
    first, second = ladder(FIRST, *range(10)), ladder(SECOND, *range(3))
    ranked = [first[each].key for each in (4, 7, 1, 0, 2, 3, 6, 5)] + [second[each].key for each in (2, 1, 0)]
    ordered = [(each.shape_key, each.number) for each in by_worth([*first, *second], ranked)]
    assert ordered == [
        *((FIRST, each) for each in (4, 8, 9)),  # 8 and 9 were never measured
        (SECOND, 2),
        *((FIRST, each) for each in (1, 7)),  # the second and the third of the board
        *((SECOND, each) for each in (0, 1)),
        *((FIRST, each) for each in (0, 2, 3, 6)),
        (FIRST, 5),
    ]


def test_a_row_of_two_boards_counts_as_on_the_newer() -> None:
    rows = ladder(FIRST, 0, 1, 2)
    ranked = [rows[2].key, rows[0].key, rows[1].key, rows[2].key]
    assert [each.number for each in by_worth(rows, ranked)] == [2, 0, 1]
