"""Products with packed weights: an honest kernel passes, and one that unpacks or scales them wrongly does not."""

from collections.abc import Callable

import pytest
import torch

import baselines
from harness.judge.child import trials
from harness.judge.facts.operator import OUTPUT_SCALE
from harness.judge.facts.problem import parse_shape_key
from tests.harness.operators.launches import Launch, wrong

KEYS = ["int4linear_bf16fp32_16x96x512", "int4linear_fp16fp32_16x96x256", "int4linear_f32fp32_48x64x384"]
Weigh = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def kernel(weigh: Weigh, *, rounded: bool = False) -> Launch:
    """A product of weights that ``weigh`` makes from low nibbles, high nibbles and scales, all in float32."""

    def launch(x: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor, c: torch.Tensor) -> None:
        low, high = (packed & 15).float(), (packed >> 4).float()
        w = weigh(low, high, scales.float())
        c.copy_(x.float() @ (w.to(x.dtype).float() if rounded else w).T)

    return launch


def woven(even: torch.Tensor, odd: torch.Tensor) -> torch.Tensor:
    return torch.stack((even, odd), dim=-1).flatten(1)


def scaled(w: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return w * scales.repeat_interleave(128, dim=1)


def honest(low: torch.Tensor, high: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return scaled(woven(low, high) - 8, scales)


MISTAKES: dict[str, Weigh] = {
    "low and high swapped": lambda low, high, s: scaled(woven(high, low) - 8, s),
    "halves of a row in place of neighbours": lambda low, high, s: scaled(torch.cat((low, high), dim=1) - 8, s),
    "the zero point's sign": lambda low, high, s: scaled(woven(low, high) + 8, s),
    "no zero point": lambda low, high, s: scaled(woven(low, high), s),
    "two's complement": lambda low, high, s: scaled(woven(low, high) - 16 * (woven(low, high) > 7), s),
    "no scales": lambda low, high, s: (woven(low, high) - 8) * float(s.mean()),
    "the group before": lambda low, high, s: scaled(woven(low, high) - 8, s.roll(1, 1)),
    "the row before": lambda low, high, s: scaled(woven(low, high) - 8, s.roll(1, 0)),
    "one bit of the high nibble lost": lambda low, high, s: scaled(woven(low, high % 8) - 8, s),
    "the last group not scaled": lambda low, high, s: scaled(
        woven(low, high) - 8, torch.cat((s[:, :-1], s[:, :1]), dim=1)
    ),
}


@pytest.mark.parametrize("key", KEYS)
def test_the_library_and_honest_kernels_pass(key: str) -> None:
    for seed in range(3):
        assert wrong(key, kernel(honest), seed=seed) == set()
        assert wrong(key, kernel(honest, rounded=True), seed=seed) == set()
    assert wrong(key, baselines.library(parse_shape_key(key))) == set()


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("key", KEYS)
def test_a_mistake_is_found_by_the_exact_trial_and_by_another(key: str, mistake: str) -> None:
    found = wrong(key, kernel(MISTAKES[mistake])) - {"held"}
    assert trials.EXACT in found
    assert found - {trials.EXACT}


@pytest.mark.parametrize("key", KEYS)
def test_the_outputs_scale(key: str) -> None:
    problem, dice = parse_shape_key(key), torch.Generator().manual_seed(1)
    inputs = [
        trials.random_pool(problem, position, torch.Size(shape).numel(), dice).view(shape)
        for position, shape in enumerate(problem.inputs)
    ]
    assert float(trials.reference(problem, inputs).std()) == pytest.approx(OUTPUT_SCALE, rel=0.25)
