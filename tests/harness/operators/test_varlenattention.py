"""Attention within sequences: an honest kernel passes, and one that mistakes their bounds does not."""

import math
from itertools import pairwise

import pytest
import torch

import baselines
from harness.judge.facts.problem import parse_shape_key
from tests.harness.operators.launches import Launch, wrong

KEYS = ["varlenattention_bf16fp32_5x4x2x160x96x64", "varlenattention_f32fp32_3x2x1x96x64x32"]


def kernel(
    *, moved: int = 0, across: bool = False, causal: bool = True, heads: int = 0, longest: int = 1 << 30
) -> Launch:
    """Weights in the input's dtype, as GPU kernels have them; with mistakes.

    ``moved`` shifts the causal mask, ``across`` sees the sequences before, ``heads`` takes another head's keys. Tokens
    beyond ``longest`` of a sequence see none before it.
    """

    def launch(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, starts: torch.Tensor, o: torch.Tensor) -> None:
        shared = q.shape[1] // k.shape[1]
        for begin, end in pairwise(starts.tolist()):
            if begin == end:
                continue
            first = 0 if across else begin
            rows, keys = torch.arange(begin, end)[:, None], torch.arange(first, end)
            seen = (keys <= rows + moved) | torch.tensor(not causal)
            seen &= ~((keys < begin + longest) & (rows >= begin + longest))
            for h in range(q.shape[1]):
                g = (h // shared + heads) % k.shape[1]
                scores = q[begin:end, h].float() @ k[first:end, g].float().T / math.sqrt(q.shape[-1])
                weights = torch.exp(scores.masked_fill(~seen, -1e30) - scores.amax(-1, keepdim=True))
                total = weights.sum(-1, keepdim=True)
                o[begin:end, h] = (weights.to(q.dtype).float() @ v[first:end, g].float() / total).to(o.dtype)

    return launch


@pytest.mark.parametrize("key", KEYS)
def test_the_library_and_an_honest_kernel_pass(key: str) -> None:
    for seed in range(3):
        assert wrong(key, kernel(), seed=seed) == set()
    assert wrong(key, baselines.library(parse_shape_key(key))) == set()


@pytest.mark.parametrize(
    ("mistake", "by"),
    [
        (kernel(moved=1), {"random"}),
        (kernel(moved=-1), {"random", "exact"}),
        (kernel(across=True), {"random", "exact"}),
        (kernel(causal=False), {"random"}),
        (kernel(longest=40), {"random", "exact"}),
    ],
    ids=["sees the next", "not itself", "across sequences", "not causal", "wrong for long sequences"],
)
@pytest.mark.parametrize("key", KEYS)
def test_a_mistake_is_found(key: str, mistake: Launch, by: set[str]) -> None:
    assert wrong(key, mistake) >= by | {"timed"}


def test_another_heads_keys_are_found() -> None:
    assert wrong(KEYS[0], kernel(heads=1)) >= {"random", "exact", "timed"}
