"""The order of a run: stages that need no device run ahead, no further than the window, and nobody is overtaken."""

import os
from typing import Any

import pytest

from harness import gpus, run
from harness.candidate import Candidate, Settings
from harness.iteration import Problem
from harness.problem import parse_shape_key
from harness.progress import Quiet
from harness.records import Stage
from harness.tree import Tree
from tests.harness.checkout import ROOT

PROBLEM = parse_shape_key("matmul_bf16fp32_4096x4096x4096")


class Trivial:
    """A candidate whose stages take no time: what is left is the order."""

    contestant = None

    def __init__(self, iteration: Any) -> None:
        self.iteration = iteration

    def leave(self) -> None: ...


class Numbered:
    def __init__(self, number: int, problem: Problem) -> None:
        self.number, self.problem = number, problem


@pytest.mark.timeout(60)
def test_iterations_that_build_at_once_do_not_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead, finished, furthest = 0, 0, 0

    def enter(iteration: Any, *rest: Any, **more: Any) -> Trivial:
        nonlocal ahead, furthest
        ahead += 1
        furthest = max(furthest, ahead - finished)
        return Trivial(iteration)

    def finish(plan: Any, candidate: Trivial, *rest: Any) -> tuple[int, bool]:
        nonlocal finished
        finished += 1
        return candidate.iteration.number, False

    monkeypatch.setattr(Candidate, "enter", enter)
    monkeypatch.setattr(run, "advance", lambda *rest, **more: None)
    monkeypatch.setattr(run, "_finish", finish)
    plan = run.Plan(Tree(ROOT), gpus.find("h200"), None, (), Settings(3.0), upto=Stage.CONTRACT)
    iterations: Any = [Numbered(number, PROBLEM) for number in range(20_000)]
    done: Any = run._carry_out(plan, iterations, lambda operator: None, Quiet())  # type: ignore[arg-type,return-value]
    assert [number for _, number, _ in done] == list(range(20_000))
    assert furthest <= 2 * len(os.sched_getaffinity(0)) + 1  # the one that is being finished
