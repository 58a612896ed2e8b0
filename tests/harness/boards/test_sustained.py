"""The sustained regime on the board: which rows take part, and what is said where it names another leader."""

from dataclasses import replace

import msgspec
import pytest

from harness.boards import exports, pairs, rows, tables
from harness.boards.pairs import expected
from harness.boards.sustained import (
    BELOW_THE_LIMIT,
    MEMORY_BOUND,
    NO_LIMIT_TOLD,
    ON_A_CPU,
    SLICED,
    chosen,
    leading,
    line,
    no_limit,
    recorded,
    without_ceiling,
)
from harness.catalog import gpus
from harness.catalog.tree import Selection, Tree
from harness.judge.candidate import Settings
from harness.judge.facts.hashes import families_sha256, source_sha256
from harness.judge.facts.problem import parse_shape_key
from harness.machine.nvml import Device
from harness.records.base import Cause, RowKind, Status
from harness.records.results import Record
from harness.records.store import append
from harness.runs.run import Plan, reusable
from tests.harness import checkout as of_checkout
from tests.harness.boards.test_leaderboard import SHAPE, Ladder
from tests.harness.checkout import Checkout, until
from tests.harness.examples import ceiling, measurement, record, sustained, sustained_record


@pytest.fixture
def ladder(tree: Tree) -> Ladder:
    return Ladder(tree)


def keep(ladder: Ladder, made: Record, ratio: float, **changes: object) -> None:
    append(ladder.tree.sustained("cpu", SHAPE, "me"), sustained_record(made, ratio, **changes))


def test_a_row_has_both_figures_and_another_leader_is_named(ladder: Ladder) -> None:
    first, second = ladder.measured(1, 1.055, 1.059), ladder.measured(2, 1.039, 1.043)
    keep(ladder, first, 1.025)
    keep(ladder, second, 1.080)
    keep(ladder, second, 1.042)  # newer
    (board,) = ladder.boards()
    assert [(row.iteration[:7], row.sustained_ratio) for row in board.rows] == [("iter001", 1.025), ("iter002", 1.042)]
    assert board.sustained_leader == board.rows[1]
    said = " ".join(tables.leaderboard(board).split())
    assert "at equal clocks iter001_idea leads; at the power limit iter002_idea does, with 1.0420" in said
    assert "sustained 1.0250 [1.0219, 1.0281], 680 TFLOPS, 700 W at 1500 MHz, 1.020 pJ per flop" in said
    assert "iter002 leads sustained" in tables.leaders([board], "github")


def test_what_another_run_of_the_same_code_found_wrong_is_rejected(ladder: Ladder) -> None:
    """Here at the power limit and before its own run; what another source or judge had says nothing of it."""
    second = ladder.measured(2, 1.050, 1.052)
    first = ladder.measured(1, 1.055, 1.059)
    refused = {"status": Status.REJECTED, "cause": Cause.WRONG_RESULT, "measurement": None}
    keep(ladder, first, 1.0, reason="random trial: off by 2", **refused)
    keep(ladder, first, 1.0, reason="of another source", **refused, source_sha256="another")
    append(
        ladder.tree.records("cpu", SHAPE, "me"), msgspec.structs.replace(first, **refused, reason="timed trial: off")
    )
    append(ladder.tree.records("cpu", SHAPE, "me"), first)
    (board,) = ladder.boards()
    assert [(row.iteration[:7], row.rank, row.status) for row in board.rows] == [
        ("iter002", 1, Status.PASSED),
        ("iter001", None, Status.REJECTED),
    ]
    said = " ".join(tables.leaderboard(board).split())
    assert "rejected: wrong in 2 other runs of the same code: random trial: off by 2" in said
    exported = exports.rows([first, second], [board])
    assert [(row["status"], row["verdict"]) for row in exported] == [("passed", "rejected"), ("passed", "passed")]


@pytest.mark.parametrize(
    ("widened", "status"), [("2026-01-01", "rejected"), ("2026-01-03", "passed"), ("2026-01-05", "rejected")]
)
def test_what_narrower_limits_found_wrong_does_not_count_once_it_passes(
    widened: str, status: str, ladder: Ladder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "widened_at", lambda root, operator: {"matmul": widened}[operator])
    passed = msgspec.structs.replace(ladder.measured(1, 1.055, 1.059), recorded_at="2026-01-04")
    refused = {"status": Status.REJECTED, "cause": Cause.WRONG_RESULT, "measurement": None}
    path = ladder.tree.records("cpu", SHAPE, "me")
    append(path, msgspec.structs.replace(passed, **refused, recorded_at="2026-01-02"))
    append(path, passed)
    (board,) = ladder.boards()
    assert [row.status for row in board.rows] == [status]


def test_a_later_pass_on_another_chip_counts_for_the_row(ladder: Ladder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "widened_at", lambda root, operator: "2026-01-03")
    ladder.measured(2, 1.050, 1.052)
    shown = msgspec.structs.replace(ladder.measured(1, 1.055, 1.059), recorded_at="2026-01-01")
    path = ladder.tree.records("cpu", SHAPE, "me")
    refused = {"status": Status.REJECTED, "cause": Cause.WRONG_RESULT, "measurement": None}
    append(path, msgspec.structs.replace(shown, **refused, recorded_at="2026-01-02"))
    append(path, shown)
    other_chip = msgspec.structs.replace(shown.environment, device_uuid="another")
    for status, recorded_at in (Status.REJECTED, "2026-01-02"), (Status.PASSED, "2026-01-04"):
        append(path, msgspec.structs.replace(shown, environment=other_chip, recorded_at=recorded_at))
        (board,) = ladder.boards()
        row = next(each for each in board.rows if each.iteration == shown.iteration)
        assert (row.status, row.environment) == (status, shown.environment)


def test_where_the_intervals_meet_the_leader_stays(ladder: Ladder) -> None:
    keep(ladder, ladder.measured(1, 1.055, 1.059), 1.040)
    keep(ladder, ladder.measured(2, 1.039, 1.043), 1.042)
    (board,) = ladder.boards()
    assert board.sustained_leader is None


def test_a_ratio_of_two_clocks_is_not_on_the_board(ladder: Ladder) -> None:
    rests = msgspec.structs.replace(sustained(1.3), at_limit=False, throttle=("power cap",))
    keep(ladder, ladder.measured(1, 1.055, 1.059), 1.3, measurement=rests)
    (board,) = ladder.boards()
    assert board.rows[0].sustained_ratio is None and not board.at_limit


def test_a_leader_that_is_not_measured_there_is_said_to_be(ladder: Ladder) -> None:
    ladder.measured(1, 1.055, 1.059)
    keep(ladder, ladder.measured(2, 1.039, 1.043), 1.042)
    (board,) = ladder.boards()
    assert board.sustained_leader == board.first_at_limit == board.rows[1]
    said = " ".join(tables.leaderboard(board).split())
    assert "at the power limit iter002_idea does, with 1.0420" in said
    assert "where iter001_idea is not measured" in said
    large = replace(board, gpu="h200", problem="matmul_bf16fp32_8192x8192x8192", rows=board.rows[:1])
    assert tables.regimes(large) == "no figure at the power limit"
    memory_bound = replace(large, problem="add_f32fp32_16777216")
    assert not tables.regimes(memory_bound) and not tables.regimes(replace(large, gpu="cpu"))


def test_figures_of_other_code_another_judge_or_a_rejection_are_not_shown(ladder: Ladder) -> None:
    made = ladder.measured(1, 1.055, 1.059)
    keep(ladder, made, 1.1, source_sha256="another")
    keep(ladder, made, 1.1, environment=ladder.elsewhere(judge_sha256="another"))
    keep(ladder, made, 1.1, environment=ladder.elsewhere(device="another"))
    keep(ladder, made, 1.1, status=Status.REJECTED, cause=Cause.CLOCK, reason="too good", measurement=None)
    assert ladder.rows()[0].sustained_ratio is None
    assert "sustained" not in tables.leaders(ladder.boards())


def test_figures_of_other_families_count_where_the_code_is_the_same(ladder: Ladder) -> None:
    before = ladder.measured(1, 1.055, 1.059)
    keep(ladder, before, 1.1)
    (ladder.tree.root / "kernels/family.py").write_text("CHANGED = True\n")
    ladder.measured(1, 1.056, 1.060)
    assert ladder.rows()[0].sustained_ratio is None
    ladder.keeps_code(before)
    assert ladder.rows()[0].sustained_ratio == 1.1


def test_what_is_recorded_of_the_same_code_is_not_measured_again(ladder: Ladder) -> None:
    before = ladder.measured(1, 1.055, 1.059)
    keep(ladder, before, 1.1)
    (iteration,), _ = ladder.tree.scan("cpu", Selection())
    plan = Plan(ladder.tree, gpus.find("cpu"), None, (iteration,), Settings(1.0))
    vars(plan)["environment"] = lambda _: before.environment.described

    def known() -> list[float]:
        paired, limited = reusable(plan, iteration, plan.environment), recorded(plan, iteration)
        return [each.measurement.ratio for each in (paired, limited) if each and each.measurement]

    assert known() == [1.057, 1.1]
    (ladder.tree.root / "kernels/family.py").write_text("CHANGED = True\n")
    assert known() == []
    ladder.keeps_code(before)
    assert known() == [1.057, 1.1]


def test_the_leader_and_its_ties_take_part_and_a_cpu_or_memory_has_no_limit(ladder: Ladder) -> None:
    ladder.measured(0, 0.99, 1.01)
    ladder.measured(1, 1.05, 1.06)
    ladder.measured(2, 1.04, 1.051)
    ladder.measured(3, 1.02, 1.03)
    (board,) = ladder.boards()
    taken = [[each.number for each, _ in leading(ladder.tree, board, top)] for top in (1, 3, 9)]
    assert taken == [[1, 2], [1, 2, 3], [1, 2, 3]]
    ladder.write(1, source="import kernels.family  # changed\n")
    (board,) = ladder.boards()
    assert [each.number for each, _ in leading(ladder.tree, board, 1)] == [2]
    skipped: dict[str, str] = {}
    plan = Plan(ladder.tree, gpus.find("cpu"), None, (), Settings(1.0))
    assert not list(chosen(plan, Selection(), skipped))
    assert skipped == {SHAPE: ON_A_CPU}
    h200, large = gpus.find("h200"), parse_shape_key("matmul_bf16fp32_8192x8192x8192")
    whole = Device(0, "NVIDIA H200", "GPU-1", "580", 700.0)
    assert no_limit(h200, whole, large) is None
    assert no_limit(h200, whole, parse_shape_key("add_f32fp32_16777216")) == MEMORY_BOUND
    assert no_limit(h200, replace(whole, sliced=True), large) == SLICED
    assert no_limit(h200, replace(whole, power_limit_w=None), large) == NO_LIMIT_TOLD


def test_rows_at_a_locked_clock_do_not_take_part_where_none_is_locked(
    ladder: Ladder, monkeypatch: pytest.MonkeyPatch
) -> None:
    ladder.measured(1, 1.05, 1.06)
    ladder.measured(2, 1.2, 1.3, environment=ladder.elsewhere(locked_mhz=1410))
    monkeypatch.setattr("harness.boards.sustained.no_limit", lambda *_: None)
    plan = Plan(ladder.tree, gpus.find("cpu"), None, (), Settings(1.0))
    assert [each.number for each, _ in chosen(plan, Selection(), {})] == [1]


def test_a_line_says_the_figures_or_why_there_are_none() -> None:
    made = record()
    assert line(sustained_record(made, 1.042)).endswith(
        "sustained 1.0420 [1.0389, 1.0451], 680.0 TFLOPS, 700 W at 1500 MHz, 1.020 pJ per flop"
    )
    known = sustained(1.042)

    def told(**side: object) -> str:
        contestant = msgspec.structs.replace(known.contestant, **side)
        measured = msgspec.structs.replace(known, contestant=contestant, at_limit=False)
        return line(sustained_record(made, 1, measurement=measured))

    uncounted = told(joules_per_launch=None, pj_per_flop=None)
    assert uncounted.endswith("700 W at 1500 MHz, energy not counted, below the power limit")
    library_at_limit = msgspec.structs.replace(known, at_limit=False, throttle=("power cap",))
    assert line(sustained_record(made, 1, measurement=library_at_limit)).endswith(BELOW_THE_LIMIT)
    silent = told(sm_clock_mhz=None, power_w=None, joules_per_launch=None, pj_per_flop=None)
    assert silent.endswith("680.0 TFLOPS, the driver tells neither clock nor power")
    failed = sustained_record(made, 1, status=Status.REJECTED, cause=Cause.CLOCK, reason="too good", measurement=None)
    assert line(failed).endswith("sustained: too good")


@pytest.mark.slow
def test_the_command_says_that_a_cpu_has_no_limit(checkout: Checkout) -> None:
    checkout.ladder((8,))
    for regime, told in (("both", 0), ("sustained", 1)):
        done = checkout.run("bench", "--regime", regime, "--budget", "0.2")
        assert done.returncode == 0
        assert done.stderr.count(f"no sustained figure: {ON_A_CPU}") == told


# A CPU has no limit, but its phases run like those of a GPU.
ALLOWED = """
from harness.boards import sustained
sustained.no_limit = lambda *_: None
"""
# A pair of phases has been counted, and the next one has begun.
NOTED = """
from pathlib import Path
from harness.judge import sustaining
finished = sustaining.finished
sustaining.finished = lambda *known: (Path("noted").touch(), finished(*known))[1]
"""


@pytest.mark.slow
def test_what_the_limit_held_on_a_chip_without_a_ceiling_is_told(ladder: Ladder) -> None:
    """A share of another chip's ceiling is worth less than one of its own."""
    made = ladder.measured(1, 1.05, 1.06)
    held = sustained_record(made, 1.04)
    below = sustained_record(made, 1.04, measurement=msgspec.structs.replace(sustained(1.04), at_limit=False))
    assert without_ceiling([held, below], []) == ["float32"]
    assert without_ceiling([below], []) == []
    assert without_ceiling([held], [ceiling(850, made.environment.device_uuid)]) == []
    assert without_ceiling([held], [ceiling(850, "GPU-of-another")]) == ["float32"]


def test_killed_in_a_phase_it_loses_nothing_and_leaves_no_process(checkout: Checkout) -> None:
    checkout.ladder((8,))
    assert checkout.run("bench", "--regime", "paired", "--no-opponents", "--budget", "0.2").returncode == 0
    ladder = "cpu", of_checkout.SHAPE, of_checkout.MODEL
    paired, path = checkout.tree.records(*ladder), checkout.tree.sustained(*ladder)
    before, command = paired.read_bytes(), ("bench", "--regime", "sustained", "--no-opponents")
    with checkout.started(*command, settings=f"{ALLOWED}\n{NOTED}") as process:
        assert until((checkout.root / "noted").exists)
        process.kill()
        process.wait()
    assert until(lambda: checkout.processes() == []), checkout.processes()
    assert paired.read_bytes() == before and not path.exists()


OTHER = """
from harness.catalog.opponents import Opponent
OPPONENTS = (
    Opponent(
        name="other", what="another kernel", build=print, operators={"matmul": ("f32",)}, architectures=("c",),
        licence="MIT", source="",
    ),
)
"""


def test_the_leader_stands_against_the_strongest_opponent_at_the_limit(ladder: Ladder) -> None:
    path = ladder.tree.root / "baselines" / "opponents" / "other.py"
    path.parent.mkdir(parents=True)
    path.write_text(OTHER)
    first = ladder.measured(1, 1.05, 1.06)
    own = {"source_sha256": source_sha256(path), "families_sha256": families_sha256(ladder.tree.root, path)}
    fields = {"model": "opponents", "iteration": "other", "number": 0, "kind": RowKind.OPPONENT, "shape_key": SHAPE}
    other = record(environment=ladder.environment, measurement=measurement(1.02, 1.03), **fields, **own)
    append(ladder.tree.opponents("cpu", SHAPE), other)
    append(ladder.tree.sustained("cpu", SHAPE, "opponents"), sustained_record(other, 1.10))
    keep(ladder, first, 1.06)
    keep(ladder, first, 0.965, opponent="other")
    (board,) = ladder.boards()
    assert board.sustained_best_opponent is not None
    assert board.sustained_best_opponent.sustained_ratio == 1.10
    row = board.rows[0]
    assert (row.sustained_ratio, row.sustained_vs_best, row.sustained_best_opponent) == (1.06, 0.965, "other")
    said = " ".join(tables.leaderboard(board).split())
    assert "sustained against other 0.9650 [0.9621, 0.9679]" in said


def test_a_pair_at_the_limit_is_what_both_ratios_say(ladder: Ladder) -> None:
    made = ladder.measured(1, 1.05, 1.06)
    assert made.measurement is not None
    row = ladder.rows()[0]
    found = expected(made.measurement, msgspec.structs.replace(row, ratio=1.10, ratio_low=1.09))
    assert found.ratio == pytest.approx(1.055 / 1.10)
    assert found.ratio_high == pytest.approx(1.06 / 1.09)


def test_the_pair_at_the_limit_is_of_what_leads_there(ladder: Ladder, monkeypatch: pytest.MonkeyPatch) -> None:
    ladder.measured(1, 1.055, 1.059)
    keep(ladder, ladder.measured(2, 1.039, 1.043), 1.042)
    (board,) = ladder.boards()
    opponent = msgspec.structs.replace(board.rows[1], iteration="strong", kind=RowKind.OPPONENT)
    monkeypatch.setattr(pairs, "present", lambda plan, problem: replace(board, opponents=(opponent,)))
    monkeypatch.setattr(pairs, "_entry", lambda plan, problem, row: row)
    plan = Plan(ladder.tree, gpus.find("cpu"), None, (), Settings(1.0))
    (opposed,) = pairs.pairs_at_limit(plan, parse_shape_key(board.problem))
    assert opposed.contestant.name == "iter002_idea" and opposed.against is not None
