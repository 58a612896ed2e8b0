"""Gradients of causal attention: an honest kernel passes, and one with a wrong gradient, mask or sum does not."""

import math

import pytest
import torch

import baselines
from harness.judge.facts.problem import parse_shape_key
from tests.harness.operators.launches import Launch, wrong

KEYS = ["attentionbackward_bf16fp32_2x2x160x64", "attentionbackward_f32fp32_1x2x96x32"]


def kernel(
    *, moved: int = 0, heads: int = 0, summed: bool = True, centred: bool = True, tail: int = 0, halved: int = 3
) -> Launch:
    """Weights and their gradients in the input's dtype, as GPU kernels have them; with mistakes.

    ``moved`` shifts the mask, ``heads`` takes another head's values. Without ``summed`` L counts as 0, and without
    ``centred`` O does. The last ``tail`` keys are skipped. The gradient of number ``halved`` is half as large.
    """

    def launch(*tensors: torch.Tensor) -> None:
        q, k, v, o, do, lse = (each.float() for each in tensors[:6])
        scale, dtype = 1 / math.sqrt(q.shape[-1]), tensors[0].dtype
        keys = torch.arange(q.shape[2])
        hidden = (keys > keys[:, None] + moved) | (keys >= len(keys) - tail)
        weights = (q @ k.mT * scale - lse[..., None] * summed).exp().masked_fill(hidden, 0.0)
        of_weights = do @ v.roll(heads, 1).mT - (do * o).sum(-1, keepdim=True) * centred
        of_scores = (weights * of_weights * scale).to(dtype).float()
        found = [of_scores @ k, of_scores.mT @ q, weights.to(dtype).float().mT @ do]
        for number, (written, gradient) in enumerate(zip(tensors[6:], found, strict=True)):
            written.copy_(gradient / (2 if number == halved else 1))

    return launch


MISTAKES = {
    "sees the next": kernel(moved=1),
    "not itself": kernel(moved=-1),
    "values of another head": kernel(heads=1),
    "no sum of the forward pass": kernel(summed=False),
    "no output of the forward pass": kernel(centred=False),
    "the last key skipped": kernel(tail=1),
    "first gradient wrong": kernel(halved=0),
    "second gradient wrong": kernel(halved=1),
    "third gradient wrong": kernel(halved=2),
}


@pytest.mark.parametrize("key", KEYS)
def test_the_library_and_an_honest_kernel_pass(key: str) -> None:
    for seed in range(2):
        assert wrong(key, kernel(), seed=seed) == set()
    assert wrong(key, baselines.library(parse_shape_key(key))) == set()


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("key", KEYS)
def test_a_mistake_is_found(key: str, mistake: str) -> None:
    assert wrong(key, MISTAKES[mistake]) >= {"random", "timed"}
