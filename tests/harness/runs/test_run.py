"""The order of a run: stages that need no device run ahead, no further than the window, and none is overtaken."""

import os
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from harness.catalog import gpus
from harness.catalog.tree import Iteration, Selection, Tree
from harness.evidence.toolchain import Toolchain
from harness.iteration import Problem
from harness.judge import fault_attribution
from harness.judge.candidate import Settings
from harness.judge.facts.problem import parse_shape_key
from harness.judge.verdicts import status_of
from harness.machine.progress import Quiet
from harness.records.base import Cause, Stage, Status
from harness.records.results import Record
from harness.records.store import append
from harness.runs import run
from tests.harness.checkout import ROOT
from tests.harness.examples import ENVIRONMENT, record

PROBLEM = parse_shape_key("matmul_bf16fp32_4096x4096x4096")


class Trivial:
    """A candidate with stages that take no time: what is left is the order."""

    contestant = None

    def __init__(self, iteration: Any) -> None:
        self.iteration = iteration

    def leave(self) -> None: ...


class Numbered:
    def __init__(self, number: int, problem: Problem) -> None:
        self.number, self.problem = number, problem


@pytest.mark.slow
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

    monkeypatch.setattr(run, "Candidate", enter)
    monkeypatch.setattr(run, "advance", lambda *rest, **more: None)
    monkeypatch.setattr(run, "finish", finish)
    plan = run.Plan(Tree(ROOT), gpus.find("h200"), None, (), Settings(3.0), upto=Stage.CONTRACT)
    iterations: Any = [Numbered(number, PROBLEM) for number in range(20_000)]
    done: Any = run._carry_out(plan, iterations, Quiet())
    assert [number for _, (number, _) in done] == list(range(20_000))
    assert furthest <= 2 * len(os.sched_getaffinity(0)) + 1  # the one that is being finished


@pytest.mark.parametrize(
    ("causes", "stands"),
    [
        ([], None),
        ([None, Cause.CLOCK], 0),
        ([Cause.CLOCK], None),  # it was stopped before the second try
        ([Cause.CLOCK, Cause.REFEREE], None),
        ([Cause.REFEREE, Cause.CLOCK], None),
        ([Cause.CLOCK, Cause.REFEREE, Cause.CLOCK], 0),
        ([Cause.REFEREE, None], 1),
        ([Cause.SABOTAGE], 0),
    ],
)
def test_what_another_measurement_would_only_repeat(causes: list[Cause | None], stands: int | None) -> None:
    outcomes = [record(cause=cause) for cause in causes]  # newest first
    assert fault_attribution.standing(outcomes, gpus.find("h200")) is (None if stands is None else outcomes[stands])
    on_cpu = next((each for each in outcomes if each.cause is not Cause.REFEREE), None)
    assert fault_attribution.standing(outcomes, gpus.find("cpu")) is on_cpu


def step(tree: Tree) -> Iteration:
    """The one iteration of a tree."""
    folder = tree.sources("cpu", "matmul_f32fp32_16x8x8", "me")
    folder.mkdir(parents=True)
    (folder / "iter000_step.py").write_text('"""A step."""\n')
    (iteration,) = tree.scan("cpu", Selection())[0]
    return iteration


def kept(tree: Tree, iteration: Iteration, **fields: object) -> Record:
    """A record of an iteration as it is, kept in its file."""
    named = {"shape_key": iteration.shape_key, "iteration": iteration.name, "number": 0, "model": "me"}
    source, families = tree.hashes(iteration)
    made = record(**named, source_sha256=source, families_sha256=families, **{"environment": ENVIRONMENT, **fields})
    append(tree.records("cpu", iteration.shape_key, "me"), made)
    return made


@pytest.mark.parametrize(
    ("elsewhere", "repeats", "repeats_any"),
    [
        ({}, True, True),
        ({"device_uuid": "GPU-2"}, False, True),
        ({"driver": "571"}, False, True),
        ({"torch": "2.12.0"}, False, False),
        ({"judge_sha256": "1" * 64}, False, False),
    ],
)
def test_what_another_chip_measured_is_repeated_unless_any_chip_will_do(
    elsewhere: dict[str, str], repeats: bool, repeats_any: bool, tree: Tree
) -> None:
    iteration = step(tree)
    made = kept(tree, iteration, environment=msgspec.structs.replace(ENVIRONMENT, **elsewhere))
    plan = run.Plan(tree, gpus.find("cpu"), None, (iteration,), Settings(3.0))
    for any_chip, known in ((False, repeats), (True, repeats_any)):
        found = run.reusable(replace(plan, any_chip=any_chip), iteration, lambda operator: ENVIRONMENT)
        assert found == (made if known else None)


@pytest.mark.parametrize(("widened", "repeats"), [("2026-01-01", True), ("2026-01-03", False)])
def test_what_narrower_limits_found_wrong_is_measured_again(
    widened: str, repeats: bool, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "widened_at", lambda root, operator: {"matmul": widened}[operator])
    iteration = step(tree)
    refused = {"status": Status.REJECTED, "cause": Cause.WRONG_RESULT, "measurement": None}
    made = kept(tree, iteration, **refused, recorded_at="2026-01-02")
    plan = run.Plan(tree, gpus.find("cpu"), None, (iteration,), Settings(3.0))
    assert run.reusable(plan, iteration, lambda operator: ENVIRONMENT) == (made if repeats else None)


@pytest.mark.parametrize(
    ("gpu", "cause", "turns"), [("h200", Cause.CLOCK, 2), ("h200", Cause.SABOTAGE, 1), ("cpu", Cause.CLOCK, 1)]
)
def test_what_may_only_have_woken_late_is_measured_once_more(
    gpu: str, cause: Cause, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped processes of a GPU differ in waking up; a CPU's are measured several times as it is."""
    outcomes = [record(status=status_of(cause), cause=cause), record()]

    def carry_out(plan: Any, iterations: list[Any], **rest: Any) -> Iterator[tuple[Any, run.Finished]]:
        yield iterations[0], run.Finished(outcomes.pop(0), reused=False)

    monkeypatch.setattr(run, "_carry_out", carry_out)
    monkeypatch.setattr(run, "reusable", lambda *rest: None)
    monkeypatch.setattr(run, "alone", lambda *rest: nullcontext())
    monkeypatch.setattr(run, "start_forkserver", lambda *rest: None)
    monkeypatch.setattr(Toolchain, "require", lambda self, **_: None)
    iteration = Tree(ROOT).scan("cpu", Selection())[0][0]
    heard: list[Record] = []
    results = run.run(run.Plan(Tree(ROOT), gpus.find(gpu), None, (iteration,), Settings(3.0)), Quiet(), heard.append)
    assert len(heard) == turns
    assert [each.cause for each in results.records] == [None if turns == 2 else cause]
