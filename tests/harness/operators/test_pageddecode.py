"""Attention to a cache in pages: an honest kernel passes, and one that reads too little, or too much, does not."""

import math
from collections.abc import Callable

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import baselines
from baselines import torch_gather_then_sdpa as pages
from harness.judge.facts.problem import parse_shape_key
from tests.harness.operators.launches import Launch, wrong

KEYS = ["pageddecode_bf16fp32_4x4x2x64x8x16", "pageddecode_f32fp32_8x2x1x32x4x16"]
Lengths = Callable[[torch.Tensor, int], torch.Tensor]


def kernel(seen: Lengths = lambda lengths, size: lengths, *, heads: int = 0, pages: int = 0) -> Launch:
    """Weights in the input's dtype, as GPU kernels have them; with mistakes.

    ``seen`` gives the tokens that it reads, ``heads`` takes another head's keys, ``pages`` another sequence's pages.
    """

    def launch(
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        table: torch.Tensor,
        lengths: torch.Tensor,
        o: torch.Tensor,
    ) -> None:
        read = seen(lengths, k.shape[1]).clamp(1, table.shape[1] * k.shape[1])
        for b, (row, count) in enumerate(zip(table.roll(pages, 0).long(), read.tolist(), strict=True)):
            keys, values = (each[row].flatten(0, 1)[:count].roll(heads, 1).float() for each in (k, v))
            keys, values = (each.repeat_interleave(q.shape[1] // k.shape[2], 1) for each in (keys, values))
            scores = torch.einsum("hd,nhd->hn", q[b].float(), keys) / math.sqrt(q.shape[-1])
            weights = torch.exp(scores - scores.amax(-1, keepdim=True))
            o[b] = torch.einsum("hn,nhd->hd", weights.to(q.dtype).float(), values) / weights.sum(-1, keepdim=True)

    return launch


def masks_after_the_product(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor, o: torch.Tensor
) -> None:
    """Reads whole pages, with weights of 0 beyond the length: 0 times what lies there is no 0."""
    shared = q.shape[1] // k.shape[2]
    for b, count in enumerate(lengths.tolist()):
        keys, values = (each[table[b].long()].flatten(0, 1).repeat_interleave(shared, 1).float() for each in (k, v))
        scores = torch.einsum("hd,nhd->hn", q[b].float(), keys) / math.sqrt(q.shape[-1])
        scores[:, count:] = -math.inf
        o[b] = torch.einsum("hn,nhd->hd", scores.softmax(-1), values).to(o.dtype)


MISTAKES = {
    "one token too few": kernel(lambda n, size: n - 1),
    "the last page skipped": kernel(lambda n, size: (n - 1) // size * size),
    "the last page skipped where it is not full": kernel(lambda n, size: torch.where(n > size, n // size * size, n)),
    "short for long lengths alone": kernel(lambda n, size: n.clamp(max=3 * size)),
    "the pages of another sequence": kernel(pages=1),
}
BEYOND = {
    "one token too many": kernel(lambda n, size: n + 1),
    "whole pages": kernel(lambda n, size: (n + size - 1) // size * size),
    "masked too late": masks_after_the_product,
}


@pytest.mark.parametrize("key", KEYS)
def test_the_library_and_an_honest_kernel_pass(key: str) -> None:
    for seed in range(3):
        assert wrong(key, kernel(), seed=seed) == set()
    assert wrong(key, baselines.library(parse_shape_key(key))) == set()


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("key", KEYS)
def test_a_kernel_that_reads_too_little_is_found(key: str, mistake: str) -> None:
    found = [wrong(key, MISTAKES[mistake], seed=seed) for seed in range(3)]
    assert all(found)
    assert set.union(*found) >= {"exact", "timed"}


@pytest.mark.parametrize("mistake", BEYOND)
@pytest.mark.parametrize("key", KEYS)
def test_a_kernel_that_reads_beyond_a_length_meets_poison(key: str, mistake: str) -> None:
    assert wrong(key, BEYOND[mistake]) >= {"random", "exact", "timed"}


def test_another_heads_keys_are_found() -> None:
    assert wrong(KEYS[0], kernel(heads=1)) >= {"random", "exact", "timed"}


def test_on_a_gpu_the_library_takes_the_page_table_where_torch_can(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = parse_shape_key(KEYS[0])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(pages, "varlen_attn", lambda q, *rest, block_table, seqused_k, enable_gqa: block_table)
    with FakeTensorMode():
        each = [torch.empty(shape, dtype=getattr(torch, dtype), device="cuda") for shape, dtype in problem.tensors[:5]]
        assert pages.pageddecode(*each) is each[3]
    assert baselines.library(problem).name == "torch.varlen_attn"
    monkeypatch.setattr(pages, "PAGED", False)  # as with torch 2.11
    assert baselines.library(problem).name == "torch.gather_then_sdpa"
