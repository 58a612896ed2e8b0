"""Products of groups of rows: an honest kernel passes, and one that is wrong for some experts does not."""

import pytest
import torch

import baselines
from harness.judge.child.trials import random_pool
from harness.judge.facts.problem import parse_shape_key
from harness.operators.groupedlinear import OPERATOR
from tests.harness.operators.launches import wrong

KEYS = ["groupedlinear_bf16fp32_96x64x80x8", "groupedlinear_f32fp32_48x32x64x12", "groupedlinear_fp16fp32_8x32x64x16"]
SEEDS = range(3)


def tiles(x: torch.Tensor, w: torch.Tensor, ends: torch.Tensor, c: torch.Tensor, *, block: int = 16) -> None:
    """Tiles of a few rows, each of one expert, as GPU kernels have them."""
    start = 0
    for expert, end in enumerate(ends.tolist()):
        for first in range(start, end, block):
            rows = slice(first, min(first + block, end))
            c[rows] = (x[rows].float() @ w[expert].float().T).to(c.dtype)
        start = end


def numbers_those_with_rows(x: torch.Tensor, w: torch.Tensor, ends: torch.Tensor, c: torch.Tensor) -> None:
    """An empty expert is not counted, so those after it get the weights of the one before."""
    present = ends[torch.cat((ends[:1] > 0, ends[1:] > ends[:-1]))]
    tiles(x, w, present, c)


def stops_at_an_empty_expert(x: torch.Tensor, w: torch.Tensor, ends: torch.Tensor, c: torch.Tensor) -> None:
    sizes = torch.diff(ends, prepend=ends.new_zeros(1)).tolist()
    tiles(x, w, ends[: sizes.index(0)] if 0 in sizes else ends, c)


def writes_a_tile_for_each_expert(x: torch.Tensor, w: torch.Tensor, ends: torch.Tensor, c: torch.Tensor) -> None:
    """Wrong for empty experts alone: each has a row, which belongs to the next one."""
    tiles(x, w, ends, c)
    start = 0
    for expert, end in enumerate(ends.tolist()):
        if start == end and end < len(x):
            c[end] = (x[end].float() @ w[expert].float().T).to(c.dtype)
        start = end


def shares_rows_evenly(x: torch.Tensor, w: torch.Tensor, ends: torch.Tensor, c: torch.Tensor) -> None:
    even = torch.arange(1, len(ends) + 1) * len(x) // len(ends)
    tiles(x, w, even, c)


def overruns_its_last_tile(x: torch.Tensor, w: torch.Tensor, ends: torch.Tensor, c: torch.Tensor) -> None:
    """The tiles after it are written first, so its rows beyond the end stay."""
    start, bounds = 0, []
    for expert, end in enumerate(ends.tolist()):
        bounds += [(expert, first) for first in range(start, end, 16)]
        start = end
    for expert, first in reversed(bounds):
        c[first : first + 16] = (x[first : first + 16].float() @ w[expert].float().T).to(c.dtype)


@pytest.mark.parametrize("key", KEYS)
def test_the_library_and_an_honest_kernel_pass(key: str) -> None:
    for seed in SEEDS:
        assert wrong(key, tiles, seed=seed) == set()
    assert wrong(key, baselines.library(parse_shape_key(key))) == set()


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    "launch",
    [
        numbers_those_with_rows,
        stops_at_an_empty_expert,
        writes_a_tile_for_each_expert,
        shares_rows_evenly,
        overruns_its_last_tile,
    ],
)
def test_a_mistake_is_found(key: str, launch: object) -> None:
    assert callable(launch)
    for seed in SEEDS:
        assert wrong(key, launch, seed=seed) - {"held"}


def test_experts_are_uneven_and_some_are_empty() -> None:
    problem = parse_shape_key("groupedlinear_bf16fp32_4096x128x128x8")
    ends = random_pool(problem, 2, 8 * 50, torch.Generator().manual_seed(1)).view(50, 8)
    sizes = torch.diff(ends, dim=1, prepend=ends.new_zeros(50, 1))
    assert bool((sizes.sum(dim=1) == 4096).all())
    assert bool(((sizes == 0).sum(dim=1) >= 1).all())
    assert float((sizes.max(dim=1).values > 2 * 4096 / 8).float().mean()) > 0.5


@pytest.mark.parametrize(("rows", "experts"), [(4096, 8), (16, 128), (5, 1)])
def test_the_bytes_are_at_most_those_of_the_experts_with_rows(rows: int, experts: int) -> None:
    """More bytes would make the roofline refuse kernels that are right."""
    problem = parse_shape_key(f"groupedlinear_bf16fp32_{rows}x64x256x{experts}")
    ends = random_pool(problem, 2, experts * 50, torch.Generator().manual_seed(1)).view(50, experts)
    sizes = torch.diff(ends, dim=1, prepend=ends.new_zeros(50, 1))
    weights = float((sizes > 0).sum(dim=1).float().mean()) * 64 * 256
    assert problem.bytes <= 2 * (rows * 256 + rows * 64 + weights) + 4 * experts
    assert OPERATOR.flops == "2 * M * N * K"
