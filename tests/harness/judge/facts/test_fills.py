"""Each fill draws what it says, and another draw each time."""

import itertools
import math
from typing import Any

import pytest
import torch

from harness.judge.facts.fills import (
    Fill,
    Integers,
    Lengths,
    Mask,
    Normal,
    Offsets,
    PageTable,
    Permutation,
    Positive,
    Signed,
    Words,
)

VALUES = {"N": 64, "P": 40}


def draws(fill: Fill, shape: tuple[int, ...], dtype: str, count: int = 20) -> list[torch.Tensor]:
    dice = torch.Generator().manual_seed(3)
    assert fill.unmet(shape, dtype, VALUES) is None
    found: list[Any] = [fill.draw(shape, dtype, VALUES, dice) for _ in range(count)]
    assert all(each.shape == shape and each.dtype == getattr(torch, dtype) for each in found)
    assert not torch.equal(found[0], found[1])
    return found


def draw_once(fill: Fill, shape: tuple[int, ...]) -> list[int]:
    found: list[int] = fill.draw(shape, "int32", VALUES, torch.Generator()).tolist()
    return found


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_floats_have_their_scale(dtype: str) -> None:
    normal, positive = draws(Normal(2.0), (4096,), dtype)[0], draws(Positive("N / 16"), (4096,), dtype)[0]
    assert float(normal.float().std()) == pytest.approx(2, rel=0.1)
    assert 3.2 < float(positive.float().min()) < float(positive.float().max()) <= 5


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn"])
def test_a_signed_factor_is_as_far_from_zero_as_a_positive_one(dtype: str) -> None:
    values = draws(Signed("N / 16"), (4096,), dtype)[0].float()
    assert 3.2 < float(values.abs().min()) < float(values.abs().max()) <= 5
    assert 0.4 < float((values < 0).float().mean()) < 0.6


def test_integers_take_every_value_of_their_range() -> None:
    assert set(draws(Integers("N", 60), (400,), "int8")[0].tolist()) == {60, 61, 62, 63}


def test_lengths_hold_both_ends() -> None:
    for each in draws(Lengths("N", 0), (2, 3), "int32"):
        assert (int(each.min()), int(each.max())) == (0, 64)
    assert draw_once(Lengths("N"), (1,)) == [64]


def test_lengths_come_from_every_part_of_the_range() -> None:
    for each in draws(Lengths("N", 1), (4, 2), "int32"):
        assert ((each.flatten().sort().values - 1) // 8).tolist() == list(range(8))


@pytest.mark.parametrize("most", [math.inf, 22, 21])
@pytest.mark.parametrize("ends", [False, True])
def test_offsets_are_sorted_and_sum_to_their_total(most: float, ends: bool) -> None:
    for each in draws(Offsets("N", most=most, ends=ends), (5 - ends,), "int32"):
        offsets = [0, *each.tolist()] if ends else each.tolist()
        sizes = [end - start for start, end in itertools.pairwise(offsets)]
        assert offsets[0] == 0 and offsets[-1] == 64 and len(sizes) == 4
        assert max(sizes) <= most
        assert (min(sizes) == 0) == (3 * most >= 64), "a group is empty where the others have room"


def test_groups_that_are_just_large_enough_are_even() -> None:
    assert draw_once(Offsets("N", most=16), (5,)) == [0, 16, 32, 48, 64]


def test_a_permutation_names_each_position_once() -> None:
    for each in draws(Permutation(), (3, 17), "int64"):
        assert all(sorted(row) == list(range(17)) for row in each.tolist())


def test_a_page_table_names_no_page_twice() -> None:
    for each in draws(PageTable("P"), (4, 10), "int32"):
        assert sorted(each.view(-1).tolist()) == list(range(40))


def test_a_mask_has_its_density() -> None:
    assert float(draws(Mask(0.25), (4000,), "bool")[0].float().mean()) == pytest.approx(0.25, abs=0.05)


@pytest.mark.parametrize("dtype", ["uint8", "int32"])
def test_words_have_random_bits(dtype: str) -> None:
    found = torch.stack(draws(Words(), (256,), dtype)).view(torch.uint8)
    assert len(set(found.view(-1).tolist())) == 256
