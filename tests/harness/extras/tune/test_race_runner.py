"""A rung on a failing machine: which outcomes count against a candidate."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.catalog import gpus
from harness.catalog.tree import Iteration, Tree
from harness.errors import InfrastructureError
from harness.extras.tune import pin, race_runner
from harness.extras.tune.race_runner import RaceRunner, finalists, leading_at_limit
from harness.extras.tune.record import TuningTrial, ranked, trials_path
from harness.extras.tune.search import History, Search, TunePlan, write_candidates
from harness.extras.tune.survey import SpaceEntry, Surveyed
from harness.judge.candidate import Settings
from harness.judge.facts.problem import parse_shape_key
from harness.judge.verdicts import status_of
from harness.machine.progress import Reporter
from harness.records.base import Cause, Stage
from harness.records.results import Measurement, Record
from harness.records.store import read
from harness.runs.run import Plan
from tests.harness.examples import ENVIRONMENT, measurement, record, sustained, sustained_record

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


def at_limit(outcomes: Sequence[float | Cause]) -> Callable[..., None]:
    """A run in the sustained regime with given ratios, or the cause of a failure; nothing is tried twice."""
    left = list(outcomes)

    def run(
        plan: Plan,
        waiting: Mapping[Iteration, Measurement],
        regime: object,
        reporter: object,
        keep: Callable[..., None],
    ) -> None:
        for iteration, paired in waiting.items():
            assert paired.ratio == 1.05  # what the race measured explains it
            outcome = left.pop(0)
            made = record(shape_key=PROBLEM.shape_key, model=iteration.model)
            if isinstance(outcome, Cause):
                failed = {"status": status_of(outcome), "cause": outcome, "reason": "the reason", "measurement": None}
                keep(sustained_record(made, 1.0, **failed))
            else:
                keep(sustained_record(made, outcome))

    return run


def test_finalists_are_measured_once_at_the_power_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race_runner, "run", judge([None, None]))
    stopped = runner(tmp_path)
    keys = [entry.key for entry in ENTRIES]
    dict(stopped.measure(0, keys))
    first, second = finalists(ranked(stopped.trials), 1)
    monkeypatch.setattr("harness.boards.sustained.run", at_limit([1.02, Cause.REFEREE]))
    with pytest.raises(InfrastructureError, match="the same command continues"):
        stopped.at_limit([first, second])
    kept, _ = read(trials_path(Tree(tmp_path), "cpu", PROBLEM.shape_key, "tuner"), TuningTrial)
    goes_on = runner(tmp_path / "again", kept)
    monkeypatch.setattr("harness.boards.sustained.run", at_limit([1.04]))
    found = goes_on.at_limit([first, second])
    assert {key: measured.ratio for key, measured in found.items()} == dict(zip(keys, (1.02, 1.04), strict=True))
    assert (goes_on.measured, goes_on.reused) == (1, 1)
    assert [each.sustained and each.sustained.ratio for each in ranked(goes_on.trials)] == [1.02, 1.04]
    assert [each.trial.rung for each in ranked(goes_on.trials)] == [0, 0]


def test_the_first_at_the_power_limit_wins_where_the_leader_is_certainly_behind() -> None:
    assert leading_at_limit("a", {"a": sustained(1.02), "b": sustained(1.04)}) == "b"
    assert leading_at_limit("a", {"a": sustained(1.02), "b": sustained(1.024)}) == "a"  # their intervals meet
    assert leading_at_limit("a", {"a": sustained(1.02), "b": sustained(1.0)}) == "a"
    assert leading_at_limit("a", {"b": sustained(1.0)}) == "b"  # it did not pass there


def test_the_sentence_of_a_winner_at_the_power_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race_runner, "run", judge([None, None]))
    made = runner(tmp_path)
    dict(made.measure(0, [entry.key for entry in ENTRIES]))
    leader, other = ranked(made.trials)
    found = {leader.trial.key: sustained(1.02), other.trial.key: sustained(1.04)}
    assert pin.sustained(ENTRIES, found, other, leader) == (
        "Picked by the power limit from the first 2 of a race of 2 configurations of plain_loops, "
        "varied in loop_order: sustained ratio 1.0400 to torch.matmul, and the leader of the race, "
        "which has loop_order=mnk, reaches 1.0200."
    )
    assert pin.sustained(ENTRIES, found, leader, leader).endswith("1.0200 to torch.matmul, and it leads the race too.")


def test_a_candidate_s_own_fault_puts_it_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race_runner, "run", judge([Cause.WRONG_RESULT, None]))
    outcomes = dict(runner(tmp_path).measure(0, [entry.key for entry in ENTRIES]))
    assert [blocks is None for blocks in outcomes.values()] == [True, False]
