"""Attention as a problem: an honest kernel passes its trials, and the mistakes that one makes do not."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from harness.judge.child import trials
from harness.judge.facts.operator import OUTPUT_SCALE
from harness.judge.facts.problem import Problem, parse_shape_key
from harness.judge.limits import complaint, sketch_limit
from harness.operators import OPERATORS
from tests.harness.checkout import BASELINE, BUDGET, Checkout

KEYS = [
    "attention_bf16fp32_1x4x2x256x64x64",
    "attention_fp16fp32_2x2x2x128x128x64",
    "causalattention_bf16fp32_1x4x2x256x64x64",
    "causalattention_fp16fp32_1x2x1x192x64x128",
    "attention_f32fp32_1x2x1x96x32x32",
]
Made = tuple[list[torch.Tensor], torch.Tensor]


def random_inputs(problem: Problem) -> list[torch.Tensor]:
    dice = torch.Generator().manual_seed(1)
    return [
        trials.random_pool(problem, position, math.prod(shape), dice).view(shape)
        for position, shape in enumerate(problem.inputs)
    ]


def exact_inputs(problem: Problem) -> list[torch.Tensor]:
    inputs = random_inputs(problem)
    trials.fill_exact(problem, inputs, torch.Generator().manual_seed(2))
    return inputs


def flash(
    problem: Problem, inputs: list[torch.Tensor], *, block: int = 32, skipped: int = -1, seen: int = 0, heads: int = 0
) -> torch.Tensor:
    """An online softmax over blocks of keys with weights in the input's dtype, as GPU kernels have it; with mistakes.

    ``skipped`` leaves out a block of keys, ``seen`` moves the causal mask, ``heads`` takes another head's keys.
    """
    q, k, v = (each.float() for each in inputs)
    low = inputs[0].dtype
    batch, count, tokens, depth = q.shape
    shared = count // k.shape[1]
    if heads:
        k = k.roll(heads, dims=1)
    k, v = k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1)
    rows = torch.arange(tokens)[:, None]
    top = torch.full((batch, count, tokens, 1), -1e30)
    total, result = torch.zeros_like(top), torch.zeros(batch, count, tokens, v.shape[-1])
    for number, first in enumerate(range(0, tokens, block)):
        if number == skipped:
            continue
        scores = q @ k[:, :, first : first + block].transpose(-1, -2) * (math.log2(math.e) / math.sqrt(depth))
        if problem.operator == "causalattention":
            scores = scores.masked_fill(torch.arange(first, first + block) > rows + seen, -1e30)
        new = torch.maximum(top, scores.amax(-1, keepdim=True))
        weights = torch.exp2(scores - new)
        scale = torch.exp2(top - new)
        total = total * scale + weights.sum(-1, keepdim=True)
        result = result * scale + weights.to(low).float() @ v[:, :, first : first + block]
        top = new
    return (result / total).to(low)


def judged(problem: Problem, kernel: Callable[[list[torch.Tensor]], torch.Tensor]) -> list[str | None]:
    """What the random and the exact trial complain of."""
    found = []
    for name, inputs in (("random", random_inputs(problem)), ("exact", exact_inputs(problem))):
        expected, output = trials.reference(problem, inputs), kernel(inputs)
        exact = name == "exact"
        trial = (trials.compare_exact if exact else trials.compare)(name, problem, output, expected)
        found.append(complaint(trial))
    return found


@pytest.mark.parametrize("key", KEYS)
def test_an_honest_kernel_passes(key: str) -> None:
    problem = parse_shape_key(key)
    assert judged(problem, lambda inputs: flash(problem, inputs)) == [None, None]


@pytest.mark.parametrize(
    ("key", "mistake", "by_exact"),
    [
        (KEYS[0], {"skipped": 3}, True),
        (KEYS[0], {"heads": 1}, True),
        (KEYS[2], {"skipped": 3}, True),
        (KEYS[2], {"seen": 1}, False),  # no query means a key that it must not see
        (KEYS[2], {"seen": -1}, True),
        (KEYS[3], {"seen": 1}, False),
    ],
)
def test_a_mistake_is_found(key: str, mistake: dict[str, int], *, by_exact: bool) -> None:
    problem = parse_shape_key(key)
    random, exact = judged(problem, lambda inputs: flash(problem, inputs, **mistake))
    assert random is not None
    assert (exact is not None) == by_exact


@pytest.mark.parametrize("key", KEYS)
def test_the_reference_is_what_torch_computes(key: str) -> None:
    problem = parse_shape_key(key)
    inputs = random_inputs(problem)
    q, k, v = (each.double() for each in inputs)
    causal = problem.operator == "causalattention"
    torchs = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    wide = trials.reference(problem, inputs)
    assert torch.allclose(wide.double(), torchs, atol=1e-4)


@pytest.mark.parametrize("key", KEYS)
def test_the_outputs_scale(key: str) -> None:
    problem = parse_shape_key(key)
    deviation = float(trials.reference(problem, random_inputs(problem)).std())
    if problem.operator == "attention":
        assert deviation == pytest.approx(OUTPUT_SCALE / 2, rel=0.25)
    else:
        assert deviation < OUTPUT_SCALE


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_the_largest_error_of_a_right_result_keeps_its_distance(dtype: str) -> None:
    """Of four million outputs: on a GPU there are ten times as many, and as many trials, and none may fail."""
    problem = parse_shape_key(f"attention_{dtype}fp32_1x32x32x1024x128x128")
    inputs = random_inputs(problem)
    trial = trials.compare("random", problem, flash(problem, inputs, block=256), trials.reference(problem, inputs))
    assert trial.max_abs_err is not None and trial.max_abs_limit is not None
    assert trial.max_abs_err < trial.max_abs_limit / 2


@pytest.mark.parametrize("key", KEYS)
def test_a_sketch_is_zero_for_what_is_right_and_finds_what_is_not(key: str) -> None:
    problem = parse_shape_key(key)
    inputs = random_inputs(problem)
    dice = torch.Generator().manual_seed(3)

    def off(output: torch.Tensor) -> float:
        return float(trials.sketch(problem, inputs, output, dice).max())

    right = flash(problem, inputs)
    assert off(right) < sketch_limit(problem)
    assert off(right * 0.9) > sketch_limit(problem)
    unwritten = right.clone()
    unwritten[-1, -1, -1, -1] = math.nan
    assert math.isnan(off(unwritten))


def test_flops_count_two_products_and_half_of_them_where_it_is_causal() -> None:
    full, half = (parse_shape_key(f"{name}_bf16fp32_2x16x4x1024x192x128") for name in ("attention", "causalattention"))
    assert full.flops == 2 * 2 * 16 * 1024 * 1024 * (192 + 128)
    assert half.flops * 2 == full.flops
    assert [len(shape) for shape in full.inputs] == [4, 4, 4]
    assert OPERATORS["attention"].dims == ("B", "H", "G", "S", "D", "W")


KERNEL = '''"""Attention as its definition says, a row at a time."""

import tilelang.cpu.language as T
from harness.iteration import Program

PARENT = "iter000_torch_sdpa"
CONFIG = dict(compile_flags=("-O2",))


def build(problem):
    B, H, G, S, D, W = problem.dims
    causal = problem.operator == "causalattention"

    @T.prim_func
    def kernel(
        Q: T.Tensor((B, H, S, D), "float32"),
        K: T.Tensor((B, G, S, D), "float32"),
        V: T.Tensor((B, G, S, W), "float32"),
        Out: T.Tensor((B, H, S, W), "float32"),
    ):
        with T.Kernel(S, H, B) as (row, head, batch):
            weights = T.alloc_local((S,), "float32")
            most = T.alloc_local((1,), "float32")
            total = T.alloc_local((1,), "float32")
            seen = row + 1 if causal else S
            most[0] = -1e30
            total[0] = 0.0
            for key in T.serial(seen):
                weights[key] = 0.0
                for d in T.serial(D):
                    weights[key] += Q[batch, head, row, d] * K[batch, head // (H // G), key, d]
                weights[key] *= D ** -0.5
                most[0] = T.max(most[0], weights[key])
            for key in T.serial(seen):
                weights[key] = T.exp(weights[key] - most[0])
                total[0] += weights[key]
            for w in T.serial(W):
                Out[batch, head, row, w] = 0.0
            for key in T.serial(seen):
                for w in T.serial(W):
                    Out[batch, head, row, w] += weights[key] / total[0] * V[batch, head // (H // G), key, w]

    return Program(kernel, compile_flags=CONFIG["compile_flags"])
'''


@pytest.mark.slow
def test_attention_goes_down_the_line_on_a_cpu(tmp_path: Path) -> None:
    checkout = Checkout.create(tmp_path / "checkout")
    shapes = ("attention_f32fp32_1x4x2x96x32x32", "causalattention_f32fp32_1x4x2x96x32x48")
    try:
        for shape in shapes:
            checkout.write("iter000_torch_sdpa", BASELINE, shape)
            checkout.write("iter001_by_definition", KERNEL, shape)
            checkout.write(
                "iter002_forgets_the_scale",
                KERNEL.replace("a row at a time", "without its scale").replace("D ** -0.5", "1.0"),
                shape,
            )
        done = checkout.run("bench", "--gpu", "cpu", *BUDGET)
        for shape in shapes:
            found = {record.iteration: record for record in checkout.records(shape)}
            assert found["iter000_torch_sdpa"].status == "passed", done.stderr
            assert found["iter001_by_definition"].status == "passed", done.stderr
            assert found["iter002_forgets_the_scale"].cause == "wrong_result"
        assert "ratio to torch.sdpa" in checkout.run("leaderboard", "--all").stdout
    finally:
        checkout.end()
