"""8-bit products with scales: an honest kernel passes its trials, and one that gets a scale wrong does not."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from harness.judge.child import trials
from harness.judge.facts.operator import OUTPUT_SCALE
from harness.judge.facts.problem import Problem, parse_shape_key
from harness.judge.limits import complaint, sketch_limit
from tests.harness.checkout import BASELINE, BUDGET, Checkout

TENSOR = "scaledlinear_e4m3fp32bf16_96x256x512"
BLOCKS = "blockscaledlinear_e4m3fp32bf16_96x256x512"
RAGGED = "blockscaledlinear_e4m3fp32bf16_80x144x400"
KEYS = [TENSOR, BLOCKS, RAGGED]
Inputs = list[torch.Tensor]
Spoil = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def drawn(problem: Problem, *, exact: bool, seed: int = 1) -> Inputs:
    dice = torch.Generator().manual_seed(seed)
    inputs = [
        trials.random_pool(problem, position, math.prod(shape), dice).view(shape)
        for position, shape in enumerate(problem.inputs)
    ]
    if exact:
        trials.fill_exact(problem, inputs, dice)
    return inputs


def kernel(problem: Problem, inputs: Inputs, spoil: Spoil = lambda s, t: (s, t)) -> torch.Tensor:
    """As GPU kernels have it: sums of 128 products, which are scaled as they are added; or one scale at the end."""
    a, w = (each.float() for each in inputs[:2])
    s, t = spoil(*inputs[2:])
    total = torch.zeros(problem.output_shape)
    for block, first in enumerate(range(0, a.shape[1], 128)):
        part = a[:, first : first + 128] @ w[:, first : first + 128].T
        if problem.operator == "blockscaledlinear":
            part *= s[block][:, None] * t[:, block].repeat_interleave(128)[: len(w)]
        total += part
    if problem.operator == "scaledlinear":
        total *= s * t
    return total.to(getattr(torch, problem.output))


def judged(problem: Problem, spoil: Spoil, *, exact: bool, seed: int = 1) -> str | None:
    inputs = drawn(problem, exact=exact, seed=seed)
    output, expected = kernel(problem, inputs, spoil), trials.reference(problem, inputs)
    return complaint((trials.compare_exact if exact else trials.compare)("a", problem, output, expected))


MISTAKES: dict[str, Spoil] = {
    "ignores both": lambda s, t: (torch.ones_like(s), torch.ones_like(t)),
    "ignores that of A": lambda s, t: (torch.ones_like(s), t),
    "ignores that of W": lambda s, t: (s, torch.ones_like(t)),
    "takes that of A for both": lambda s, t: (s, s.view(-1)[: t.numel()].view(t.shape)),
    "divides by them": lambda s, t: (1 / s, 1 / t),
}
MISTAKES_IN_BLOCKS: dict[str, Spoil] = {
    "the first of A for all": lambda s, t: (s[:1, :1].expand(s.shape), t),
    "the first of W for all": lambda s, t: (s, t[:1, :1].expand(t.shape)),
    "the row before": lambda s, t: (s.roll(1, 1), t),
    "the step before, of A": lambda s, t: (s.roll(1, 0), t),
    "the step before, of W": lambda s, t: (s, t.roll(1, 1)),
    "the columns before": lambda s, t: (s, t.roll(1, 0)),
    "columns and steps of W exchanged": lambda s, t: (s, t.T.reshape(t.shape)),
    "rows and steps of A exchanged": lambda s, t: (s.T.reshape(s.shape), t),
}
CASES = [(key, mistake) for key in KEYS for mistake in MISTAKES] + [
    (key, mistake) for key in KEYS[1:] for mistake in MISTAKES_IN_BLOCKS
]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("key", KEYS)
def test_an_honest_kernel_passes(key: str, exact: bool) -> None:
    for seed in range(5):
        assert judged(parse_shape_key(key), lambda s, t: (s, t), exact=exact, seed=seed) is None


@pytest.mark.parametrize(("key", "mistake"), CASES)
def test_a_mistake_in_the_scales_is_found(key: str, mistake: str) -> None:
    """By one trial of the two: scales that are drawn close to each other pass for each other in one, not in both."""
    problem, spoil = parse_shape_key(key), (MISTAKES | MISTAKES_IN_BLOCKS)[mistake]
    for seed in range(5):
        found = [judged(problem, spoil, exact=exact, seed=seed) for exact in (False, True)]
        assert found != [None, None]
        if "ignores" in mistake:
            assert None not in found


@pytest.mark.parametrize("key", KEYS)
def test_scales_are_positive_and_the_output_is_as_large_as_any(key: str) -> None:
    problem = parse_shape_key(key)
    inputs = drawn(problem, exact=False)
    assert [str(each.dtype).removeprefix("torch.") for each in inputs] == [*problem.input_dtypes]
    assert all(float(each.min()) > 0 for each in inputs[2:])
    assert len(inputs[2].unique()) > inputs[2].numel() / 2
    assert float(trials.reference(problem, inputs).std()) == pytest.approx(OUTPUT_SCALE, rel=0.25)


def test_exact_scales_are_powers_of_two_of_which_none_can_be_left_out() -> None:
    *_, s, t = drawn(parse_shape_key(BLOCKS), exact=True)
    assert set(s.view(-1).tolist()) == {0.5, 2.0}
    assert set(t.view(-1).tolist()) == {0.25, 4.0}
    assert 1.0 not in (s[:, :, None] * t.T[:, None, :])


@pytest.mark.parametrize("key", KEYS)
def test_a_sketch_sees_the_scales_of_another_block_of_launches(key: str) -> None:
    problem = parse_shape_key(key)
    inputs, others = drawn(problem, exact=False), drawn(problem, exact=False, seed=2)
    dice = torch.Generator().manual_seed(3)

    def off(output: torch.Tensor) -> float:
        return float(trials.sketch(problem, inputs, output, dice).max())

    assert off(kernel(problem, inputs)) < sketch_limit(problem)
    assert off(kernel(problem, [*inputs[:2], *others[2:]])) > sketch_limit(problem)


KERNEL = '''"""The product as its definition says."""

import tilelang.cpu.language as T
from harness.iteration import Program

PARENT = "iter000_torch_scaled_mm"
CONFIG = dict(compile_flags=("-O2",))


def build(problem):
    M, N, K = problem.dims
    a, w, s, t = problem.inputs
    blocks = problem.operator == "blockscaledlinear"

    @T.prim_func
    def kernel(
        A: T.Tensor(a, "float32"),
        W: T.Tensor(w, "float32"),
        S: T.Tensor(s, "float32"),
        U: T.Tensor(t, "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(M) as row:
            for n in T.serial(N):
                C[row, n] = 0.0
                for k in T.serial(K):
                    if blocks:
                        C[row, n] += A[row, k] * W[n, k] * (S[k // 128, row] * U[n // 128, k // 128])
                    else:
                        C[row, n] += A[row, k] * W[n, k] * (S[0] * U[0])

    return Program(kernel, compile_flags=CONFIG["compile_flags"])
'''


@pytest.mark.slow
def test_scaled_products_go_down_the_line_on_a_cpu(tmp_path: Path) -> None:
    checkout = Checkout.create(tmp_path / "checkout")
    shapes = ("scaledlinear_f32fp32_32x64x96", "blockscaledlinear_f32fp32_48x160x272")
    try:
        for shape in shapes:
            checkout.write("iter000_torch_scaled_mm", BASELINE, shape)
            checkout.write("iter001_by_definition", KERNEL, shape)
            forgetful = KERNEL.replace("says", "says, without scales").replace("* U[0]", "* 0.0 + 1.0")
            checkout.write("iter002_ignores", forgetful.replace("* U[n // 128, k // 128]", "* 0.0 + 1.0"), shape)
        done = checkout.run("bench", "--gpu", "cpu", *BUDGET)
        for shape in shapes:
            found = {record.iteration: record for record in checkout.records(shape)}
            assert found["iter000_torch_scaled_mm"].status == "passed", done.stderr
            assert found["iter001_by_definition"].status == "passed", done.stderr
            assert found["iter002_ignores"].cause == "wrong_result"
        assert "ratio to torch.scaled_mm" in checkout.run("leaderboard", "--all").stdout
    finally:
        checkout.end()
