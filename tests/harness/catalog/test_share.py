"""Shares: equal, without a gap or an overlap, and the same on every machine."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.catalog.share import Share
from harness.catalog.tree import Selection, Tree
from harness.errors import ExitCode, NothingToDo

NAMES = [f"matmul_bf16fp32_{size}x8x8" for size in range(8, 400, 8)]


@given(st.sets(st.text(min_size=1, max_size=8), min_size=1, max_size=40), st.integers(1, 12))
def test_every_name_is_in_one_share_and_shares_are_equal_to_within_one(names: set[str], of: int) -> None:
    shares = [Share(number, of).of_names(names) for number in range(1, min(of, len(names)) + 1)]
    assert sorted(name for share in shares for name in share) == sorted(names)
    sizes = {len(share) for share in shares} | ({0} if of > len(names) else set())
    assert max(sizes) - min(sizes) <= 1


def test_a_share_is_of_the_names_alone() -> None:
    """Known names: another order of dealing would give two machines of different versions one problem twice."""
    assert Share(2, 8).of_names(NAMES) == Share(2, 8).of_names(list(reversed(NAMES)))
    assert Share(2, 8).of_names(NAMES) == {
        "matmul_bf16fp32_240x8x8",
        "matmul_bf16fp32_272x8x8",
        "matmul_bf16fp32_304x8x8",
        "matmul_bf16fp32_368x8x8",
        "matmul_bf16fp32_376x8x8",
        "matmul_bf16fp32_8x8x8",
    }


def test_a_copy_that_a_run_adds_moves_no_other_problem() -> None:
    more = [*NAMES, "copy_f32fp32_100x1024", "copy_f32fp32_8x1024"]
    for number in range(1, 9):
        kept = {name for name in Share(number, 8).of_names(more) if not name.startswith("copy_")}
        assert kept == Share(number, 8).of_names(NAMES)


def test_a_share_without_a_problem_has_nothing_to_do_and_fails_nothing() -> None:
    with pytest.raises(NothingToDo, match=r"share 3/8 is empty: only 2 problems") as error:
        Share(3, 8).of_names(NAMES[:2])
    assert error.value.exit_code is ExitCode.PASSED
    assert Share(3, 8).of_names([]) == set()  # the verb says that nothing is selected


def test_a_selection_deals_what_shape_and_model_leave(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    for position, name in enumerate(NAMES):
        for number in (1, 2):
            path = tree.sources("cpu", name, "me" if position < 9 else "you") / f"iter{number:03d}_tag.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    dealt = [
        tree.scan("cpu", Selection(model="me", iteration="2", share=Share(number, 4)))[0] for number in range(1, 5)
    ]
    assert sorted(map(len, dealt)) == [2, 2, 2, 3]
    assert {each.shape_key for share in dealt for each in share} == set(NAMES[:9])
    assert {(each.model, each.number) for share in dealt for each in share} == {("me", 2)}
