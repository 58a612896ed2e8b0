"""Latent attention to a cache in pages: an honest kernel passes, and one that reads too little or too much does not."""

import math
from collections.abc import Callable

import pytest
import torch

import baselines
from harness.judge.facts.problem import parse_shape_key
from tests.harness.operators.launches import Launch, wrong

KEYS = ["mladecode_bf16fp32_4x4x64x16x8x16", "mladecode_f32fp32_6x2x32x8x4x16"]
Lengths = Callable[[torch.Tensor, int], torch.Tensor]


def kernel(
    seen: Lengths = lambda lengths, size: lengths,
    *,
    pages: int = 0,
    heads: int = 0,
    moved: int = 0,
    turned: bool = True,
) -> Launch:
    """Weights in the input's dtype, as GPU kernels have them; with mistakes.

    ``seen`` gives the tokens that it reads, ``pages`` takes another sequence's pages, ``heads`` another head's query.
    ``moved`` takes values further to the right of a token, and without ``turned`` its last R entries do not count.
    """

    def launch(
        q: torch.Tensor, cache: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor, o: torch.Tensor
    ) -> None:
        width = o.shape[-1]
        deep = q.shape[-1] if turned else width
        read = seen(lengths, cache.shape[1]).clamp(1, table.shape[1] * cache.shape[1])
        for b, (row, count) in enumerate(zip(table.roll(pages, 0).long(), read.tolist(), strict=True)):
            tokens = cache[row].flatten(0, 1)[:count].float()
            scores = q[b].roll(heads, 0)[:, :deep].float() @ tokens[:, :deep].T / math.sqrt(q.shape[-1])
            weights = torch.exp(scores - scores.amax(-1, keepdim=True))
            values = tokens[:, moved : moved + width]
            o[b] = weights.to(q.dtype).float() @ values / weights.sum(-1, keepdim=True)

    return launch


MISTAKES = {
    "one token too few": kernel(lambda n, size: n - 1),
    "the last page skipped": kernel(lambda n, size: (n - 1) // size * size),
    "short for long lengths alone": kernel(lambda n, size: n.clamp(max=3 * size)),
    "the pages of another sequence": kernel(pages=1),
    "the query of another head": kernel(heads=1),
    "values from the wrong place": kernel(moved=8),
}


@pytest.mark.parametrize("key", KEYS)
def test_the_library_and_an_honest_kernel_pass(key: str) -> None:
    for seed in range(3):
        assert wrong(key, kernel(), seed=seed) == set()
    assert wrong(key, baselines.library(parse_shape_key(key))) == set()


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("key", KEYS)
def test_a_kernel_that_reads_what_it_should_not_is_found(key: str, mistake: str) -> None:
    found = [wrong(key, MISTAKES[mistake], seed=seed) for seed in range(3)]
    assert all(found)
    assert set.union(*found) >= {"exact", "timed"}


@pytest.mark.parametrize("key", KEYS)
def test_a_part_of_the_key_that_is_left_out_is_found(key: str) -> None:
    assert wrong(key, kernel(turned=False)) >= {"random", "timed"}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("more", [lambda n, size: n + 1, lambda n, size: (n + size - 1) // size * size])
def test_a_kernel_that_reads_beyond_a_length_meets_poison(key: str, more: Lengths) -> None:
    assert wrong(key, kernel(more)) >= {"random", "exact", "timed"}
