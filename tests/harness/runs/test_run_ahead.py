"""Work that runs ahead: the order of its results, its window, and its end."""

import threading
from typing import Any

import pytest

from harness.machine import interruption
from harness.runs.run_ahead import run_ahead


def nothing() -> None: ...


@pytest.mark.parametrize("in_batches", [False, True])
def test_results_come_in_the_order_of_the_items(in_batches: bool) -> None:
    with run_ahead(lambda n: n * n, range(500), 3, window=7, abort=nothing, in_batches=in_batches) as results:
        assert list(results) == [n * n for n in range(500)]


def test_a_slow_item_holds_up_no_other_where_order_does_not_matter() -> None:
    release = threading.Event()

    def work(number: int) -> int:
        if number == 0:
            release.wait(30)
        return number

    with run_ahead(work, range(20), 2, window=4, abort=release.set, ordered=False) as results:
        assert {next(results) for _ in range(19)} == {*range(1, 20)}
        release.set()
        assert list(results) == [0]


@pytest.mark.parametrize("in_batches", [False, True])
def test_no_more_items_are_begun_than_the_window_holds(in_batches: bool) -> None:
    begun: list[int] = []
    used: list[int] = []

    def work(number: int) -> int:
        begun.append(number)
        assert len(begun) - len(used) <= 5
        return number

    with run_ahead(work, range(100), 2, window=5, first=2, abort=nothing, in_batches=in_batches) as results:
        for number in results:
            if in_batches:  # the first has as many as begin
                assert len(begun) == (2 if number < 2 else min(100, 2 + 5 * ((number - 2) // 5 + 1)))
            used.append(number)


def test_before_the_first_result_few_items_begin_and_then_all_threads_work() -> None:
    release, crowd = threading.Event(), threading.Barrier(6, timeout=30)
    begun: list[int] = []

    def work(number: int) -> int:
        begun.append(number)
        if number < 2:
            release.wait(30)
        else:
            crowd.wait()  # with five others
        return number

    with run_ahead(work, range(8), 6, window=8, first=2, abort=release.set) as results:
        release.set()
        assert next(results) == 0
        assert {*begun} <= {0, 1}
        assert list(results) == [*range(1, 8)]


def test_the_results_end_with_the_time_and_what_is_late_is_aborted() -> None:
    stopped = threading.Event()
    left_s = iter([30.0, 30.0, 0.0])

    def work(number: int) -> int:
        assert number < 2 or stopped.wait(30)
        return number

    with run_ahead(work, range(9), 2, window=4, abort=stopped.set, left_s=lambda: next(left_s)) as results:
        assert list(results) == [0, 1]
    assert stopped.is_set()


def test_leaving_early_aborts_what_is_at_work_and_begins_nothing_more() -> None:
    stopped = threading.Event()
    begun: list[int] = []

    def work(number: int) -> int:
        begun.append(number)
        assert number == 0 or stopped.wait(30)
        return number

    with run_ahead(work, range(100), 2, window=10, abort=stopped.set) as results:
        assert next(results) == 0
    assert stopped.is_set()
    assert len(begun) <= 4


def test_a_failure_of_the_work_is_raised_where_its_result_is_due() -> None:
    with (
        pytest.raises(ZeroDivisionError),
        run_ahead(lambda n: 1 / (n - 2), range(5), 2, window=5, abort=nothing) as results,
    ):
        list(results)


def test_ctrl_c_is_heeded_between_results(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Any = threading.Event()
    monkeypatch.setattr(interruption, "_asked", asked)
    with run_ahead(abs, range(5), 2, window=5, abort=nothing) as results:
        assert next(results) == 0
        asked.set()
        with pytest.raises(KeyboardInterrupt):
            next(results)
