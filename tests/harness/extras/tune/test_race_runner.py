"""A rung on a failing machine: which outcomes count against a candidate."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.errors import InfrastructureError
from harness.extras.tune import race_runner
from harness.extras.tune.race_runner import RaceRunner
from harness.extras.tune.record import TuningTrial, trials_path
from harness.extras.tune.search import History, Search, TunePlan, write_candidates
from harness.extras.tune.survey import SpaceEntry, Surveyed
from harness.judge.candidate import Settings
from harness.judge.facts.problem import parse_shape_key
from harness.judge.verdicts import status_of
from harness.machine.progress import Reporter
from harness.records.base import Cause, Stage
from harness.records.results import Record
from harness.records.store import read
from harness.runs.run import Plan
from tests.harness.examples import ENVIRONMENT, measurement, record

CPU = gpus.find("cpu")
PROBLEM = parse_shape_key("matmul_f32fp32_64x64x64")
ENTRIES = tuple(SpaceEntry("kernels.cpu.plain_loops", {"loop_order": order}, "space") for order in ("mnk", "mkn"))


def runner(tmp_path: Path, trials: Sequence[TuningTrial] = ()) -> RaceRunner:
    scratch = Tree(tmp_path / "scratch")
    plan = TunePlan(Tree(tmp_path), CPU, None, PROBLEM, "tuner", ("kernels.cpu.plain_loops",), Settings(1.0))
    iterations = write_candidates(scratch, PROBLEM, CPU, ENTRIES)
    history = History(list(trials), [], plan.engine, ENVIRONMENT, {"kernels.cpu.plain_loops": "families"})
    return RaceRunner(Search(plan, scratch, Surveyed(ENTRIES, 0, (), ""), iterations, history, 0.0), 1)


def judge(outcomes: Sequence[Cause | None]) -> Callable[..., None]:
    """A run with given verdicts, where None passes; like a real run, it repeats a machine's fault once."""
    left = list(outcomes)

    def run(plan: Plan, reporter: Reporter, keep: Callable[[Record], None]) -> None:
        turns = deque((iteration, True) for iteration in plan.iterations)
        while turns:
            iteration, first = turns.popleft()
            cause = left.pop(0)
            if cause is Cause.REFEREE and first:
                turns.append((iteration, False))
            keep(
                record(
                    shape_key=PROBLEM.shape_key,
                    model=iteration.model,
                    status=status_of(cause),
                    stage=Stage.BENCH,
                    cause=cause,
                    reason="the reason" if cause else None,
                    measurement=measurement(1.0, 1.1) if cause is None else None,
                )
            )

    return run


def test_what_the_machine_spoils_is_measured_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race_runner, "run", judge([Cause.REFEREE, None, None]))
    made = runner(tmp_path)
    outcomes = dict(made.measure(0, [entry.key for entry in ENTRIES]))
    assert all(blocks is not None for blocks in outcomes.values())
    kept, _ = read(trials_path(Tree(tmp_path), "cpu", PROBLEM.shape_key, "tuner"), TuningTrial)
    assert [trial.cause for trial in kept] == [Cause.REFEREE, None, None]


def test_a_machine_that_goes_on_failing_stops_the_race(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race_runner, "run", judge([None, Cause.REFEREE, Cause.REFEREE]))
    with pytest.raises(InfrastructureError, match="the same command continues"):
        dict(runner(tmp_path).measure(0, [entry.key for entry in ENTRIES]))


@pytest.mark.parametrize(
    ("gpu", "earlier", "measured", "passes"),
    [
        ("h200", [Cause.CLOCK], 1, True),  # stopped before the second try
        ("h200", [Cause.CLOCK, Cause.CLOCK], 0, False),
        ("h200", [Cause.CLOCK, None], 0, True),
        ("cpu", [Cause.CLOCK], 0, False),  # where a clock measures several times at once
    ],
)
def test_what_a_gpu_s_clock_rejects_once_is_measured_once_more(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    gpu: str,
    earlier: list[Cause | None],
    measured: int,
    passes: bool,
) -> None:
    key = ENTRIES[0].key
    monkeypatch.setattr(race_runner, "run", judge(earlier))
    stopped = runner(tmp_path / "stopped")
    for _ in earlier:
        stopped._judge(0, [key], 1)
    monkeypatch.setattr(race_runner, "run", judge([None]))
    monkeypatch.setattr(race_runner, "released", lambda device: None)
    goes_on = runner(tmp_path / "again", stopped.trials)
    goes_on.plan = replace(goes_on.plan, gpu=gpus.find(gpu))
    ((_, blocks),) = goes_on.measure(0, [key])
    assert goes_on.measured == measured
    assert (blocks is not None) == passes


def test_a_candidate_s_own_fault_puts_it_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race_runner, "run", judge([Cause.WRONG_RESULT, None]))
    outcomes = dict(runner(tmp_path).measure(0, [entry.key for entry in ENTRIES]))
    assert [blocks is None for blocks in outcomes.values()] == [True, False]
