"""Operators of rows: honest kernels pass, and those that count on the inputs of a benchmark do not."""

from functools import partial

import pytest
import torch

from tests.harness.operators.launches import wrong

SEEDS = range(3)
LOG2_E = 1.4426950408889634


def softmax(x: torch.Tensor, y: torch.Tensor, *, subtracts: bool = True) -> None:
    """In base two, as GPU kernels have it."""
    given = x.float() * LOG2_E
    if subtracts:
        given -= x.float().amax(dim=1, keepdim=True) * LOG2_E
    weights = given.exp2()
    y.copy_(weights / weights.sum(dim=1, keepdim=True))


def rmsnorm(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    y: torch.Tensor,
    total: torch.Tensor,
    *,
    eps: float = 1e-6,
    positive: bool = False,
) -> None:
    added = x.float() + residual.float()
    factor = weight.float().abs() if positive else weight.float()
    y.copy_(added * (added.square().mean(dim=1, keepdim=True) + eps).rsqrt() * factor)
    total.copy_(added)


def topk(x: torch.Tensor, values: torch.Tensor, indices: torch.Tensor, *, threads: int, keeps: int) -> None:
    """Each thread keeps the largest of its own elements, which lie ``threads`` apart."""
    rows, columns = x.shape
    own = x.view(rows, columns // threads, threads)
    kept, places = own.topk(keeps, dim=1)
    largest, chosen = kept.flatten(1).topk(values.shape[1], dim=1)
    values.copy_(largest)
    indices.copy_((places * threads + torch.arange(threads)).flatten(1).gather(1, chosen))


def cross_entropy(
    logits: torch.Tensor, target: torch.Tensor, loss: torch.Tensor, lse: torch.Tensor, *, skipped: int = 0
) -> None:
    """A serial sum in float32; ``skipped`` columns count as what random logits have on average."""
    largest = logits.amax(dim=1)
    kept = (logits[:, skipped:] - largest[:, None]).exp().cumsum(dim=1)[:, -1]
    lse.copy_((kept + skipped * (0.5 - largest).exp()).log() + largest)
    loss.copy_(lse - logits.gather(1, target[:, None])[:, 0])


@pytest.mark.parametrize("columns", [128, 2048, 262144])
def test_a_cross_entropy_adds_every_column(columns: int) -> None:
    key = f"crossentropy_f32fp32_14x{columns}"
    assert wrong(key, cross_entropy) == set()
    assert {"random", "timed"} <= wrong(key, partial(cross_entropy, skipped=columns // 8))


@pytest.mark.parametrize("key", ["softmax_bf16fp32_96x512", "softmax_fp16fp32_96x512", "softmax_f32fp32_96x512"])
def test_a_softmax_subtracts_the_largest(key: str) -> None:
    for seed in SEEDS:
        assert wrong(key, softmax, seed=seed) == set()
        assert wrong(key, partial(softmax, subtracts=False), seed=seed) == {"exact"}


@pytest.mark.parametrize("key", ["rmsnorm_bf16fp32_96x512", "rmsnorm_f32fp32_96x512"])
def test_a_weight_of_a_norm_has_a_sign(key: str) -> None:
    for seed in SEEDS:
        assert wrong(key, rmsnorm, seed=seed) == set()
        assert wrong(key, partial(rmsnorm, positive=True), seed=seed) == {"random", "timed", "corners"}
    assert wrong(key, partial(rmsnorm, eps=0.0)) == {"corners"}


@pytest.mark.parametrize("threads", [16, 64, 128])
@pytest.mark.parametrize("key", ["topk_bf16fp32_96x2048x16", "topk_f32fp32_96x2048x16"])
def test_one_thread_may_hold_all_the_largest(key: str, threads: int) -> None:
    """Of random values one of 16 threads or more seldom holds ten of the 16 largest."""
    for seed in SEEDS:
        assert wrong(key, partial(topk, threads=threads, keeps=16), seed=seed) == set()
        assert wrong(key, partial(topk, threads=threads, keeps=9), seed=seed) == {"corners"}
