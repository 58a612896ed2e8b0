"""A set's step: totals are those of its rows, each weighed by its calls and its time; what has no row is said."""

import math
from dataclasses import replace

import msgspec
import pytest

from harness.boards import leaderboard, steps
from harness.boards.board import Board
from harness.catalog.problem_sets import ProblemSet
from harness.catalog.tree import Selection, Tree
from harness.records.base import Regime
from tests.harness.checkout import ROOT

LINEAR = "linear_bf16fp32_4096x14336x4096"
MATMUL = "matmul_bf16fp32_4096x4096x4096"
COPY = "copy_f32fp32_65536x1024"  # no launch of it reaches the power limit
UNMEASURED = "matmul_bf16fp32_4096x4096x8192"


@pytest.fixture(scope="module")
def boards() -> list[Board]:
    return leaderboard.boards(Tree(ROOT), "h200", Selection(shapes=frozenset({LINEAR, MATMUL, COPY})))[0]


def totals(boards: list[Board], **calls: float) -> dict[Regime, steps.StepTotal]:
    given = ProblemSet(what="a step", calls=calls)
    return {each.regime: each for each in steps.step_board("mine", given, boards).totals}


def leader(boards: list[Board], key: str) -> tuple[float, float, float, float]:
    row = next(board.leader for board in boards if board.problem == key)
    assert row is not None and row.time_ms and row.ratio and row.ratio_low and row.ratio_high
    return row.time_ms, row.ratio, row.ratio_low, row.ratio_high


def test_one_problem_is_as_fast_as_its_leader_whatever_its_weight(boards: list[Board]) -> None:
    time_ms, *figures = leader(boards, LINEAR)
    for weight in (1, 32):
        total = totals(boards, **{LINEAR: weight})[Regime.PAIRED]
        assert [total.ratio, total.ratio_low, total.ratio_high] == pytest.approx(figures)
        assert total.kernels_ms == pytest.approx(weight * time_ms)
        assert (total.without_row, total.flops_share) == ((), 1.0)


def test_the_total_is_the_librarys_time_over_the_kernels(boards: list[Board]) -> None:
    calls = {LINEAR: 32.0, MATMUL: 3.5}
    total = totals(boards, **calls)[Regime.PAIRED]
    times = {key: leader(boards, key) for key in calls}
    kernels_ms = sum(calls[key] * time_ms for key, (time_ms, *_) in times.items())
    library_ms = sum(calls[key] * time_ms * ratio for key, (time_ms, ratio, *_) in times.items())
    assert (total.library_ms, total.kernels_ms) == pytest.approx((library_ms, kernels_ms))
    assert total.ratio == pytest.approx(library_ms / kernels_ms)
    parts = [calls[key] * ms / kernels_ms * (ratio - low) for key, (ms, ratio, low, _) in times.items()]
    assert total.ratio is not None and total.ratio_low == pytest.approx(total.ratio - math.hypot(*parts))


def at_the_limit(board: Board) -> Board:
    """The board as if its leader were measured at the power limit."""
    leader = board.leader
    assert leader is not None
    held = msgspec.structs.replace(
        leader, sustained_ratio=1.03, sustained_ratio_low=1.02, sustained_ratio_high=1.04,
        sustained_rank=1, sustained_tflops=690.0,
    )  # fmt: skip
    return replace(board, rows=tuple(held if row is leader else row for row in board.rows))


def test_what_has_no_row_is_left_out_and_said(boards: list[Board]) -> None:
    boards = [at_the_limit(board) if board.problem == MATMUL else board for board in boards]
    given = ProblemSet(what="a step", without="norms", calls={MATMUL: 1, UNMEASURED: 2, COPY: 1})
    board = steps.step_board("mine", given, boards)
    paired, sustained = board.totals
    assert (paired.without_row, paired.calls) == ((UNMEASURED,), 2)
    assert paired.flops_share == pytest.approx(1 / 5)  # the other has twice the work, twice
    assert sustained.without_row == (UNMEASURED, COPY)
    said = " ".join(steps.told(board).split())
    assert f"no row: 1 of 3 problems, 2 of 4 calls, 80.0% of the work: {UNMEASURED}" in said
    assert "makes the measured part of the step 1." in said
    assert said.endswith("the set leaves out norms")


def test_a_set_without_rows_has_no_figure(boards: list[Board]) -> None:
    given = ProblemSet(calls={UNMEASURED: 1})
    board = steps.step_board("mine", given, [])
    assert [total.ratio for total in board.totals] == [None, None]
    assert "no problem of the set has a measured row" in steps.told(board)
