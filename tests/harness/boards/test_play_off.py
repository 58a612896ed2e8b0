"""A play-off: an iteration that is behind for sure loses the first rank, as long as all is as it was."""

import math
from collections.abc import Iterator

import msgspec
import numpy as np
import pytest

from harness.boards import leaderboard, play_off, tables
from harness.boards.board import BoardRow
from harness.boards.play_off import stand
from harness.catalog.gpus import find
from harness.catalog.tree import Selection, Tree
from harness.judge.candidate import Candidate, Settings
from harness.judge.facts.hashes import families_sha256, source_sha256
from harness.judge.statistics import interval
from harness.judge.sustaining import SustainedSettings
from harness.machine.progress import Quiet
from harness.records.base import Regime
from harness.records.playoffs import PlayOff
from harness.records.results import Measurement, Record
from harness.records.store import append, read
from harness.records.sustained import SustainedMeasurement
from harness.runs.run import Plan
from tests.harness.boards.test_leaderboard import SHAPE, Ladder
from tests.harness.checkout import SHAPE as SMALL
from tests.harness.checkout import Checkout, one_line
from tests.harness.envelopes import answer
from tests.harness.examples import sustained, sustained_record

ROUNDS = 8


@pytest.fixture
def ladder(tree: Tree) -> Ladder:
    """Three that cannot be told apart by what each was measured alone."""
    made = Ladder(tree)
    for number, low in ((1, 1.000), (2, 1.001), (3, 1.002)):
        made.measured(number, low, low + 0.01)
    return made


def played(ladder: Ladder, ratios: dict[int, list[float]], regime: Regime = Regime.PAIRED) -> PlayOff:
    iterations, _ = ladder.tree.scan("cpu", Selection())
    standings = stand(ladder.tree, {each: ratios[each.number] for each in iterations if each.number in ratios})
    held = PlayOff(1, "2026-01-02T00:00:00+00:00", "cpu", SHAPE, "host", ladder.environment, standings, regime)
    append(ladder.tree.play_offs("cpu", SHAPE), held)
    return held


def noisy(ratio: float, seed: int) -> list[float]:
    return [ratio * math.exp(noise) for noise in np.random.default_rng(seed).normal(0, 0.0005, ROUNDS)]


def ranks(ladder: Ladder) -> list[tuple[str, int | None]]:
    return [(row.iteration, row.rank) for row in ladder.rows()]


def test_without_one_they_share_the_rank(ladder: Ladder) -> None:
    assert [rank for _, rank in ranks(ladder)] == [1, 1, 1]


def test_it_orders_those_that_shared_the_first_rank(ladder: Ladder) -> None:
    played(ladder, {1: noisy(1.01, 1), 2: noisy(1.0099, 2), 3: noisy(1.00, 3)})
    assert ranks(ladder) == [("iter001_idea", 1), ("iter002_idea", 1), ("iter003_idea", 3)]
    behind = [row.behind for row in ladder.rows()]
    assert behind[0] == 1
    assert behind[2] == pytest.approx(1.01, abs=0.002)


def test_once_its_winner_has_left_the_distance_is_from_the_next(ladder: Ladder) -> None:
    played(ladder, {1: noisy(1.02, 1), 2: noisy(1.00, 2), 3: noisy(1.01, 3)})
    (first,) = ladder.tree.scan("cpu", Selection(iteration="1"))[0]
    first.path.unlink()
    assert ranks(ladder) == [("iter003_idea", 1), ("iter002_idea", 2)]
    assert [row.behind for row in ladder.rows()] == [1, pytest.approx(1.01, abs=0.002)]


def test_the_newest_one_counts(ladder: Ladder) -> None:
    played(ladder, {1: noisy(1.01, 1), 2: noisy(1.00, 2), 3: noisy(1.00, 3)})
    played(ladder, {1: noisy(1.00, 1), 2: noisy(1.00, 2), 3: noisy(1.02, 3)})
    assert ranks(ladder)[0] == ("iter003_idea", 1)


def test_it_counts_only_where_all_leaders_played_as_they_are_now(ladder: Ladder) -> None:
    played(ladder, {1: noisy(1.01, 1), 2: noisy(1.00, 2)})
    assert {rank for _, rank in ranks(ladder)} == {1}
    played(ladder, {1: noisy(1.01, 1), 2: noisy(1.00, 2), 3: noisy(1.00, 3)})
    ladder.write(3, source="import kernels.family  # changed\n")
    ladder.measured(3, 1.002, 1.012)
    assert {rank for _, rank in ranks(ladder)} == {1}


def test_it_counts_only_where_the_families_give_the_code_of_then(ladder: Ladder) -> None:
    played(ladder, {1: noisy(1.01, 1), 2: noisy(1.00, 2), 3: noisy(1.00, 3)})
    before, _ = read(ladder.tree.records("cpu", SHAPE, "me"), Record)
    (ladder.tree.root / "kernels/family.py").write_text("# changed\n")
    for made in before:
        ladder.made(made.number, measurement=made.measurement)
    assert {rank for _, rank in ranks(ladder)} == {1}
    for made in before:
        ladder.keeps_code(made)
    assert ranks(ladder) == [("iter001_idea", 1), ("iter002_idea", 2), ("iter003_idea", 2)]


def test_another_machine_is_not_ordered_by_it(ladder: Ladder) -> None:
    held = played(ladder, {1: noisy(1.01, 1), 2: noisy(1.00, 2), 3: noisy(1.00, 3)})
    assert held.applies(ladder.environment, "host")
    assert not held.applies(ladder.elsewhere(device="another"), "host")
    assert not held.applies(ladder.elsewhere(judge_sha256="another"), "host")
    assert not held.applies(ladder.environment, "graph")


def test_at_the_power_limit_it_orders_the_first_there_and_no_other(ladder: Ladder) -> None:
    for number, ratio in ((1, 1.02), (2, 1.021), (3, 1.0)):
        (made,) = ladder.tree.scan("cpu", Selection(iteration=str(number)))[0]
        (measured,) = (
            each for each in read(ladder.tree.records("cpu", SHAPE, "me"), Record)[0] if each.iteration == made.name
        )
        append(ladder.tree.sustained("cpu", SHAPE, "me"), sustained_record(measured, ratio))
    (board,) = ladder.boards()
    assert [(row.iteration, row.sustained_rank) for row in board.at_limit] == [
        ("iter002_idea", 1), ("iter001_idea", 1), ("iter003_idea", 3),
    ]  # fmt: skip
    assert board.leader is not None and board.leader.iteration == "iter003_idea"
    assert board.sustained_leader is not None and board.sustained_leader.iteration == "iter002_idea"
    played(ladder, {1: noisy(1.03, 1), 2: noisy(1.02, 2)}, Regime.SUSTAINED)
    (board,) = ladder.boards()
    assert [(row.iteration, row.sustained_rank) for row in board.at_limit] == [
        ("iter001_idea", 1), ("iter002_idea", 2), ("iter003_idea", 3),
    ]  # fmt: skip
    assert {row.rank for row in board.rows} == {1}  # it says nothing about equal clocks
    assert board.sustained_leader is not None and board.sustained_leader.iteration == "iter001_idea"
    assert "sustained play-off: 0.9" in tables.leaderboard(board)


def test_rounds_at_the_power_limit_know_the_figure_at_equal_clocks(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """The candidates are not run: what counts is what is asked of each, and in which regime the result is kept."""
    made = Ladder(tree)
    paired = {}
    for number in (1, 2):
        record = made.measured(number, 1.0, 1.1)
        (iteration,) = tree.scan("cpu", Selection(iteration=str(number)))[0]
        assert record.measurement is not None
        paired[iteration] = record.measurement
    asked: list[tuple[Candidate, Measurement, SustainedSettings]] = []

    def outcome_of(
        candidate: Candidate, at_equal: Measurement, settings: SustainedSettings, first: object
    ) -> SustainedMeasurement:
        asked.append((candidate, at_equal, settings))
        return sustained(1.0 + candidate.iteration.number / 100)

    monkeypatch.setattr("harness.boards.sustained.outcome_of", outcome_of)
    monkeypatch.setattr("harness.runs.run.prepare", lambda *_: None)
    how = SustainedSettings(budget_s=3)
    plan = Plan(tree, find("cpu"), None, tuple(paired), Settings(1.0))
    held = play_off.hold(plan, 2, Quiet(), play_off.AtLimit(how, paired))
    assert held.regime is Regime.SUSTAINED
    assert [(each.iteration, each.ratios) for each in held.standings] == [
        ("iter002_idea", (1.02, 1.02)), ("iter001_idea", (1.01, 1.01)),
    ]  # fmt: skip
    assert all(at_equal is paired[candidate.iteration] and used is how for candidate, at_equal, used in asked)
    assert "2 rounds, at the power limit" in tables.play_off(held)


def test_of_equals_the_interval_holds_the_tie_19_times_of_20() -> None:
    dice = np.random.default_rng(7)
    held = 0
    for _ in range(400):
        center, half = interval(dice.normal(0, 0.001, ROUNDS).tolist())
        held += abs(center) <= half
    assert 0.92 <= held / 400 <= 0.98


@pytest.mark.slow
def test_the_command_measures_in_turns_and_the_leaderboard_takes_the_verdict(checkout: Checkout) -> None:
    checkout.ladder((8, 16))
    assert checkout.run("bench", "--budget", "0.2").returncode == 0
    command = ("play-off", "--gpu", "cpu", "--shape", SMALL, "--top", "2", "--rounds", "2", "--budget", "0.1")
    done = checkout.run(*command, "--json")
    assert done.returncode == 0, done.stderr
    (held,), problems = read(checkout.tree.play_offs("cpu", SMALL), PlayOff)
    assert not problems
    assert msgspec.convert(answer(done.stdout), PlayOff) == held
    assert [len(each.ratios) for each in held.standings] == [2, 2]
    assert held.standings[0].behind == 1
    assert checkout.processes() == []
    assert "2 rounds" in checkout.run(*command).stdout
    rows: list[BoardRow] = list(leaderboard.boards(checkout.tree, "cpu", Selection())[0][0].rows)
    top = {row.iteration for row in rows[:2]}
    assert top == {each.iteration for each in held.standings}
    for row in rows[:2]:
        (standing,) = (each for each in held.standings if each.iteration == row.iteration)
        path = checkout.folder() / f"{row.iteration}.py"
        hashes = source_sha256(path), families_sha256(checkout.root, path)
        assert hashes == (standing.source_sha256, standing.families_sha256)


@pytest.fixture(scope="module")
def unplayed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """Wrong commands change nothing, so that they share a checkout."""
    made = Checkout.create(tmp_path_factory.mktemp("unplayed") / "checkout")
    made.ladder((8,))
    yield made
    made.end()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "play-off needs --shape"),
        (("--shape", "matmul"), "play-off works on one problem"),
        (("--shape", SMALL), "a play-off needs two leaders"),
        (("--shape", SMALL, "--rounds", "0"), '"0" for --rounds. Must be >= 2.'),
        (("--shape", SMALL, "--rounds", "1"), '"1" for --rounds. Must be >= 2.'),
        (("--shape", SMALL, "--top", "-1"), '"-1" for --top. Must be >= 2.'),
        (("--shape", SMALL, "--regime", "sustained"), "a CPU has none here"),
        (("--shape", SMALL, "--budget", "nan"), '"nan" for --budget. Must be < inf.'),
    ],
)
def test_a_wrong_command_is_one_line(unplayed: Checkout, words: tuple[str, ...], says: str) -> None:
    done = unplayed.run("play-off", "--gpu", "cpu", *words)
    assert done.returncode == 2
    assert says in one_line(done.stderr)
    assert answer(unplayed.run("leaderboard", "--gpu", "cpu", "--json").stdout)
