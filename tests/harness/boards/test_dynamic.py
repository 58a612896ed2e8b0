"""A dynamic kernel's mean and slowest are those of its bindings' rows."""

import math
from dataclasses import replace

import msgspec
import pytest

from harness.boards import dynamic, leaderboard, steps
from harness.boards.board import Board, BoardRow
from harness.catalog.problem_sets import ProblemSet
from harness.catalog.tree import Selection, Tree
from harness.judge.facts.problem import parse_shape_key
from tests.harness.checkout import ROOT

ROWS = tuple(f"linear_bf16fp32_{rows}x8192x8192" for rows in (64, 128, 8192))


@pytest.fixture(scope="module")
def boards() -> list[Board]:
    """The newest boards of three problems, as if the leader of each were one kernel for any M."""
    found = leaderboard.boards(Tree(ROOT), "h200", Selection(shapes=frozenset(ROWS)))[0]
    newest = {board.problem: board for board in reversed(found)}
    return [with_leader(newest[key], dynamic=("M",), source_sha256="one", families_sha256="one") for key in ROWS]


def with_leader(board: Board, **changes: object) -> Board:
    """The board with its leader alone, changed."""
    leader = board.leader
    assert leader is not None
    return replace(board, rows=(msgspec.structs.replace(leader, **changes),))


def leaders(boards: list[Board]) -> list[BoardRow]:
    return [board.leader for board in boards if board.leader is not None]


def test_the_mean_is_geometric_and_weighed_and_the_slowest_comes_first(boards: list[Board]) -> None:
    calls = dict(zip(ROWS, (1.0, 2.0, 5.0), strict=True))
    (kernel,) = dynamic.dynamic_kernels(boards, calls)
    ratios = {row.problem: row.ratio or 0.0 for row in leaders(boards)}
    assert kernel.ratio == pytest.approx(math.prod(ratios[key] ** weight for key, weight in calls.items()) ** (1 / 8))
    assert kernel.bindings[0].ratio == min(ratios.values())
    assert (kernel.ratio_low or 0) < (kernel.ratio or 0) < (kernel.ratio_high or 0)
    slowest = min(ratios, key=lambda key: ratios[key])
    said = " ".join(dynamic.told([kernel]).split())
    assert f"one kernel for any M, at 3 bindings: mean {kernel.ratio:.4f}" in said
    assert f"slowest {ratios[slowest]:.4f}" in said
    assert said.endswith(f"at {slowest}")


def test_equal_bindings_have_the_mean_of_one_and_half_its_variance(boards: list[Board]) -> None:
    pair = [with_leader(each, ratio=1.1, ratio_low=1.0, ratio_high=1.21) for each in boards[:2]]
    (kernel,) = dynamic.dynamic_kernels(pair)
    assert kernel.ratio == pytest.approx(1.1)
    assert math.log(1.1 / (kernel.ratio_low or 0)) == pytest.approx(math.log(1.1) / math.sqrt(2))


def test_a_binding_that_failed_has_no_ratio_and_is_named(boards: list[Board]) -> None:
    failed = [with_leader(boards[0], status="rejected"), *boards[1:]]
    (kernel,) = dynamic.dynamic_kernels(failed)
    assert kernel.bindings[0].ratio is None
    assert len([each for each in kernel.bindings if each.ratio is not None]) == 2
    assert " ".join(dynamic.told([kernel]).split()).endswith(f"no ratio at {ROWS[0]} (rejected)")


@pytest.mark.parametrize(
    "changes", [{"dynamic": None}, {"source_sha256": "other"}, {"families_sha256": "other"}, {"dynamic": ("N",)}]
)
def test_another_source_is_another_kernel(boards: list[Board], changes: dict[str, object]) -> None:
    (kernel,) = dynamic.dynamic_kernels([with_leader(boards[0], **changes), *boards[1:]])
    assert {each.problem for each in kernel.bindings} == set(ROWS[1:])


def test_one_binding_alone_and_problems_outside_the_set_are_not_shown(boards: list[Board]) -> None:
    assert dynamic.dynamic_kernels(boards[:1]) == ()
    step = steps.step_board("mine", ProblemSet(calls=dict.fromkeys(ROWS[:2], 1)), boards)
    (kernel,) = step.dynamic
    assert {each.problem for each in kernel.bindings} == set(ROWS[:2])
    assert steps.told(step).startswith(dynamic.told([kernel]))


def test_what_is_left_without_the_dynamic_dimensions() -> None:
    one, other = map(parse_shape_key, ROWS[:2])
    assert one.static(("M",)) == other.static(("M",))
    assert one.static(()) != other.static(())
    assert one.static(("M",)) != parse_shape_key("linear_bf16fp32_64x8192x4096").static(("M",))
