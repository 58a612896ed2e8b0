"""What the referee does alike in rounds with a contestant and without one."""

from multiprocessing import Pipe

import pytest

from harness.catalog import gpus
from harness.judge.child.arena import Set
from harness.judge.child.contents import Contents
from harness.judge.child.referee import _Bench
from harness.judge.child.side import ServedSide
from harness.judge.facts.problem import parse_shape_key
from harness.judge.messages import Alone, BaselineAlone


class StillSide(ServedSide):
    """A side without a process: its blocks take a millisecond each, and write nothing."""

    def prepare(self, sets: tuple[Set, ...], timer: str, *, writes: bool = False) -> None: ...

    def note_that_it_stands(self) -> None: ...

    def run(self, *_: object) -> float:
        return 1.0


def still(name: str, launches: int) -> ServedSide:
    side = StillSide(name, Pipe()[0], pid=0, deadline_s=1.0, cpu=True)
    side.launches = launches
    return side


def test_the_baseline_alone_finds_as_many_sets_as_beside_a_faster_contestant(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = _Bench(parse_shape_key("copy_f32fp32_64x64"), gpus.find("cpu"))
    bench.sides = {"baseline": still("baseline", 2), "contestant": still("contestant", 7)}
    bench.baseline_rounds = [(1, 0.5)]
    placed, place = list[int](), bench._place

    def noted(sets: int) -> Contents:
        placed.append(sets)
        return place(sets)

    monkeypatch.setattr(bench, "_place", noted)
    bench._draw()
    alone = bench.obey(Alone(rounds=1))
    assert placed == [8, 8], "with fewer sets the baseline's inputs would still lie in a cache"
    assert list(bench.sides) == ["baseline"]
    assert alone == BaselineAlone(1.0)  # a block of 1 ms has 2 launches, and took 0.5 ms a launch before
