"""The time of a block is read from its outputs, whenever the side answers."""

import ctypes
import itertools
import math
import random
from collections.abc import Sequence

import pytest
import torch

from harness.judge.child import completion
from harness.judge.child.completion import WORDS, Completion, Rows


class HostCopies:
    """Reads the memory of tensors on the host."""

    def __init__(self, rows: Sequence[Rows]) -> None:
        self.rows = rows

    def read(self) -> bytes:
        return b"".join(
            ctypes.string_at(address + row * pitch, width)
            for address, pitch, width, count in self.rows
            for row in range(count)
        )


@pytest.fixture
def launches() -> list[list[torch.Tensor]]:
    return [[torch.zeros(64, 96, dtype=torch.bfloat16), torch.zeros(64)] for _ in range(5)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that advances by 10 µs with each reading, and by what a test adds to the only entry, in seconds."""
    held_s = [0.0]
    ticks = itertools.count()
    monkeypatch.setattr(completion.time, "perf_counter", lambda: next(ticks) * 1e-5 + held_s[0])  # type: ignore[attr-defined]
    return held_s


def write(launch: list[torch.Tensor], value: float = 1) -> None:
    for output in launch:
        output.fill_(value)


def watch(launches: list[list[torch.Tensor]], launch_ms: float = 1.0) -> Completion:
    return Completion(launches, launch_ms, random.Random(1), HostCopies)


def test_a_block_lies_between_the_last_writes_of_its_first_and_last_launch(
    launches: list[list[torch.Tensor]], clock: list[float]
) -> None:
    block = watch(launches)
    assert math.isnan(block.timed_ms)
    for number, launch in enumerate(launches):
        write([launch[0]])
        block.look()
        write([launch[1]])
        block.look()
        clock[0] += number  # the clock of a held-up process, but not at the lead-in's end
    for _ in range(3):
        block.look()
    assert block.timed_ms == pytest.approx(6000, abs=1)
    assert not block.out_of_order


def test_what_is_rewritten_has_not_ended(launches: list[list[torch.Tensor]], clock: list[float]) -> None:
    block = watch(launches)
    for launch in launches:
        write(launch)
        block.look()
    clock[0] = 7
    write(launches[-1], 2)
    block.look()
    assert block.timed_ms == pytest.approx(7000, abs=1)


def test_an_early_answer_is_waited_for(launches: list[list[torch.Tensor]], clock: list[float]) -> None:
    """The last launch writes a half, and the rest 30 ms after the answer."""
    block = watch(launches)
    write(launches[0])
    block.look()
    launches[-1][0][:32] = 1
    looks = itertools.count()

    def look(watched: Completion) -> None:
        Completion.look(watched)
        if next(looks) == 3:
            clock[0] += 0.03
            write(launches[-1])

    block.look = look.__get__(block)  # type: ignore[method-assign]
    block.wait()
    assert block.timed_ms == pytest.approx(30, abs=1)


def test_the_wait_for_a_launch_that_writes_nothing_ends(launches: list[list[torch.Tensor]], clock: list[float]) -> None:
    block = watch(launches)
    block.wait()
    assert math.isnan(block.timed_ms)


@pytest.mark.parametrize("early", [1, 2, 3])
def test_a_launch_before_the_end_of_the_lead_in_is_out_of_order(
    early: int, launches: list[list[torch.Tensor]], clock: list[float]
) -> None:
    block = watch(launches)
    write(launches[early])
    block.look()
    write(launches[0])
    block.look()
    for launch in launches:
        write(launch)
    block.look()
    assert block.out_of_order


@pytest.mark.parametrize("late", [1, 2, 3])
def test_a_launch_after_the_last_one_began_is_out_of_order(
    late: int, launches: list[list[torch.Tensor]], clock: list[float]
) -> None:
    block = watch(launches, launch_ms=math.inf)
    write(launches[0])
    block.look()
    for number in {1, 2, 3, 4} - {late}:
        write(launches[number])
    block.look()
    write(launches[late])
    assert block.out_of_order


def test_a_lead_in_that_ends_after_the_next_launch_began_is_out_of_order(
    launches: list[list[torch.Tensor]], clock: list[float]
) -> None:
    block = watch(launches, launch_ms=0.01)
    write(launches[0][:1])
    block.look()
    write(launches[1][:1])
    block.look()
    assert not block.out_of_order
    write(launches[0][1:])
    block.look()
    assert block.out_of_order


def test_a_referee_that_was_held_up_knows_neither_time_nor_order(
    launches: list[list[torch.Tensor]], clock: list[float]
) -> None:
    block = watch(launches, launch_ms=math.inf)
    for launch in launches[:-1]:
        write(launch)
    clock[0] += completion.LONGEST_LOOK_MS / 1e3
    block.look()
    write(launches[-1])
    block.look()
    assert math.isnan(block.timed_ms)
    assert not block.out_of_order


@pytest.mark.parametrize("shape", [(1,), (3,), (127,), (129,), (64, 96), (1000, 1001)])
@pytest.mark.parametrize("dtype", [torch.bool, torch.float16, torch.float64], ids=str)
def test_outputs_of_any_size_are_seen(shape: tuple[int, ...], dtype: torch.dtype, clock: list[float]) -> None:
    outputs = [[torch.zeros(shape, dtype=dtype)] for _ in range(2)]
    block = watch(outputs)
    for launch in outputs:
        write(launch)
        block.look()
    assert block.timed_ms > 0


def test_each_part_of_an_output_counts(clock: list[float]) -> None:
    for row in range(WORDS):
        outputs = [[torch.zeros(WORDS, 64)] for _ in range(2)]
        block = watch(outputs)
        for launch in outputs:
            launch[0][row] += 1
            block.look()
        assert block.timed_ms > 0
