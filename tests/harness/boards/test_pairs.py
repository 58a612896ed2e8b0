"""In which order opponents and pairs are measured, and what a run of limited time leaves."""

from pathlib import Path
from typing import Any

import pytest

from harness.boards import pairs
from harness.catalog import gpus
from harness.catalog.opponents import Opponents
from harness.catalog.tree import Iteration, Tree
from harness.judge.candidate import Settings
from harness.judge.facts.problem import parse_shape_key
from harness.machine.progress import Quiet
from harness.runs.run import Plan
from harness.runs.within import ENDLESS, Deadline

MET, NEW = (parse_shape_key(f"matmul_f32fp32_{size}x{size}x{size}") for size in (64, 32))


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was measured, in order, instead of measuring; ``MET`` has a pair on the board."""
    made: list[str] = []

    def noting(what: str) -> Any:
        return lambda plan, problem, reporter: made.append(f"{what} {problem.dims[0]}")

    monkeypatch.setattr("harness.runs.opponents.measure", noting("opponents"))
    monkeypatch.setattr(pairs, "measure", noting("pair"))
    monkeypatch.setattr(pairs, "_has_met", lambda plan, problem: problem == MET)
    monkeypatch.setattr(Opponents, "of", lambda root: Opponents(()))
    return made


class Told(Quiet):
    """Keeps the lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def finished(self, text: str, *, advance: bool = True) -> None:
        self.lines.append(text)


def plan_of(tree: Tree, deadline: Deadline = ENDLESS) -> Plan:
    iterations = tuple(Iteration(Path(), "cpu", problem, "me", 1, "idea") for problem in (MET, NEW))
    return Plan(tree, gpus.find("cpu"), None, iterations, Settings(1.0), deadline=deadline)


def test_what_no_chip_has_measured_comes_first_and_each_problem_is_done_whole(tree: Tree, done: list[str]) -> None:
    pairs.oppose(plan_of(tree), Quiet())
    assert done == ["opponents 32", "pair 32", "opponents 64", "pair 64"]


def test_a_run_of_limited_time_says_how_many_problems_are_left(tree: Tree, done: list[str]) -> None:
    told, seconds = Told(), iter((0.0, 50.0))
    pairs.oppose(plan_of(tree, Deadline(60.0, lambda: next(seconds))), told)
    assert done == ["opponents 32", "pair 32"]
    assert told.lines == ["skipped   opponents of 1 more: the time is over"]
