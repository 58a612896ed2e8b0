"""An honest result passes every trial; a cheaper one fails at least one."""

import math
from collections.abc import Callable

import pytest
import torch

from harness.judge.child import trials
from harness.judge.facts.operator import Input, Operator, Output
from harness.judge.facts.problem import Problem, parse_shape_key
from harness.judge.limits import complaint
from harness.operators import OPERATORS

Compute = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

K = 4096
KEYS = [f"matmul_{dtypes}_96x64x{K}" for dtypes in ("bf16fp32", "fp16fp32", "f32fp32")]
LINEAR = f"linear_bf16fp32_96x64x{K}"
FP8 = f"linear_e4m3fp32bf16_96x64x{K}"


def inputs(problem: Problem, seed: int, *, exact: bool) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    tensors = [
        trials.random_pool(problem, position, shape[0] * shape[1], generator).view(shape)
        for position, shape in enumerate(problem.inputs)
    ]
    if exact:
        trials.fill_exact(problem, tensors, generator)
    return tensors


def random_trial(key: str, compute: Compute, seed: int = 0) -> str | None:
    problem = parse_shape_key(key)
    a, b = inputs(problem, seed, exact=False)
    output = compute(a, b).to(getattr(torch, problem.output))
    return complaint(trials.compare("random", problem, output, trials.reference(problem, [a, b])))


def exact_trial(key: str, compute: Compute, seed: int = 0) -> str | None:
    problem = parse_shape_key(key)
    a, b = inputs(problem, seed, exact=True)
    output = compute(a, b).to(getattr(torch, problem.output))
    return complaint(trials.compare_exact("exact", problem, output, trials.reference(problem, [a, b])))


def honest(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Accumulates in float32, in blocks of K as a kernel does."""
    return sum(
        (a[:, k : k + 64].float() @ b[k : k + 64].float() for k in range(0, a.shape[1], 64)),
        start=torch.zeros(a.shape[0], b.shape[1]),
    )


def drops_one_k(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return honest(a[:, 1:], b[1:])


def computes_in_fp8(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """With scales, so that it is as good as fp8 can be."""
    scale_a, scale_b = (448 / each.abs().max().float() for each in (a, b))
    low = [(each.float() * scale).to(torch.float8_e4m3fn) for each, scale in ((a, scale_a), (b, scale_b))]
    return honest(low[0].float(), low[1].float()) / (scale_a * scale_b)


def computes_in_bf16(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return honest(a.bfloat16(), b.bfloat16())


def accumulates_in_fp16(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float16)
    for k in range(0, a.shape[1], 16):
        total += (a[:, k : k + 16].float() @ b[k : k + 16].float()).half()
    return total


def zeros(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.zeros(a.shape[0], b.shape[1])


def half_of_k(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return 2 * honest(a[:, : K // 2], b[: K // 2])


def one_nan(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    result = honest(a, b)
    result[5, 7] = float("nan")
    return result


def one_infinity(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    result = honest(a, b)
    result[5, 7] = float("inf")
    return result


def one_element_of_another(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    result = honest(a, b)
    result[5, 7] = result[5, 8]
    return result


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("key", KEYS)
def test_an_honest_result_passes(key: str, seed: int) -> None:
    assert random_trial(key, honest, seed) is None
    assert exact_trial(key, honest, seed) is None


@pytest.mark.parametrize("key", [LINEAR, FP8])
def test_an_honest_linear_passes(key: str) -> None:
    assert random_trial(key, lambda a, w: honest(a.float(), w.float().T)) is None
    assert exact_trial(key, lambda a, w: honest(a.float(), w.float().T)) is None


def test_an_honest_result_of_any_order_of_summing_passes() -> None:
    for key in KEYS:
        assert random_trial(key, lambda a, b: honest(a.flip(1), b.flip(0))) is None


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("compute", [drops_one_k, zeros, half_of_k, one_nan, one_infinity, one_element_of_another])
def test_a_wrong_result_fails(key: str, compute: Compute) -> None:
    assert random_trial(key, compute) is not None


@pytest.mark.parametrize(
    ("key", "compute"),
    [
        (KEYS[0], computes_in_fp8),
        (KEYS[1], computes_in_fp8),
        (KEYS[2], computes_in_fp8),
        (KEYS[1], computes_in_bf16),
        (KEYS[2], computes_in_bf16),
        (KEYS[1], accumulates_in_fp16),
        (KEYS[2], accumulates_in_fp16),
    ],
)
def test_a_cheaper_dtype_fails(key: str, compute: Compute) -> None:
    assert random_trial(key, compute) is not None


@pytest.mark.parametrize("key", KEYS)
def test_the_exact_trial_catches_one_dropped_product(key: str) -> None:
    def drops_one_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        result = honest(a, b)
        products = a[3].float() * b[:, 4].float()
        # one that shows after rounding to the output's dtype, as most do
        rounded = (result[3, 4] - products).to(a.dtype) != result[3, 4].to(a.dtype)
        result[3, 4] -= products[rounded][0]
        return result

    assert exact_trial(key, drops_one_product) is not None


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("compute", [drops_one_k, zeros, one_nan])
def test_the_exact_trial_catches_what_is_wrong_everywhere(key: str, compute: Compute) -> None:
    assert exact_trial(key, compute) is not None


@pytest.mark.parametrize("key", [*KEYS, LINEAR, FP8])
def test_the_scaled_output_has_a_deviation_of_a_quarter(key: str) -> None:
    problem = parse_shape_key(key)
    expected = trials.reference(problem, inputs(problem, 0, exact=False))
    assert float(expected.std()) == pytest.approx(0.25, rel=0.1)
    assert float(expected.mean()) == pytest.approx(0, abs=0.02)


def test_the_reference_is_wider_than_the_output() -> None:
    for key, dtype in zip(KEYS, (torch.float32, torch.float32, torch.float64), strict=True):
        problem = parse_shape_key(key)
        assert trials.reference(problem, inputs(problem, 0, exact=False)).dtype == dtype


def test_an_integer_input_is_small_and_takes_every_value() -> None:
    for dtype, values in ((torch.bfloat16, {-2, -1, 0, 1, 2}), (torch.float8_e4m3fn, {-1, 0, 1})):
        tensor = torch.empty(1000, dtype=dtype)
        trials.fill_exact(parse_shape_key(LINEAR), [tensor], torch.Generator().manual_seed(0))
        assert set(tensor.float().tolist()) == values


def test_an_output_of_nan_has_no_error_but_infinity() -> None:
    problem = parse_shape_key("matmul_bf16fp32_8x8x8")
    trial = trials.compare("random", problem, torch.full((8, 8), float("nan")), torch.ones(8, 8))
    assert (trial.max_abs_err, trial.rel_err) == (None, None)


EPS = 1e-6


def rms_norm(x: torch.Tensor, *, eps: float = EPS) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)


@pytest.mark.parametrize("input_dtype", ["bfloat16", "float16", "float32"])
def test_a_norm_without_its_eps_is_found_by_the_corners_alone(
    input_dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    norm = Operator(
        name="norm",
        dims=("M", "N"),
        inputs={"x": Input("M, N")},
        outputs={"y": Output("M, N", terms="N")},
        flops=0,
        reference=rms_norm,
        rows=("x",),
    )
    monkeypatch.setitem(OPERATORS, "norm", norm)
    problem = Problem("norm", input_dtype, "float32", input_dtype, (96, 256))
    dice = torch.Generator().manual_seed(5)
    (x,) = (trials.random_pool(problem, 0, 96 * 256, dice).view(96, 256),)
    found = {}
    for corners in (False, True):
        which = trials.fill_corners(problem, [x], dice) if corners else None
        expected = trials.reference(problem, [x])
        for eps in (EPS, 0.0):
            output = rms_norm(x.to(expected.dtype), eps=eps).to(x.dtype)
            if which is None:
                trial = trials.compare_scaled("random", problem, output, expected)
            else:
                trial = trials.compare_corners(problem, output, expected, which)
            found[corners, eps] = complaint(trial)
    assert [found[False, EPS], found[False, 0.0], found[True, EPS]] == [None] * 3
    assert found[True, 0.0] is not None


def test_each_row_has_its_corner_and_the_other_input_none() -> None:
    problem = parse_shape_key(KEYS[0])
    a, b = inputs(problem, 0, exact=False)
    before = b.clone()
    which = trials.fill_corners(problem, [a, b], torch.Generator().manual_seed(1))
    assert which is not None
    sizes = {name: a[which == number].float().abs() for number, name in enumerate(trials.CORNERS)}
    scale = problem.scales[0]
    assert torch.equal(b, before)
    assert float(sizes["zero"].max()) == 0
    assert float(sizes["tiny"].max()) < scale / 100
    assert float(sizes["huge"].mean()) > 100 * scale
    assert float(sizes["equal"].std()) == 0
    assert bool((sizes["outlier"].amax(dim=1) > 100 * sizes["outlier"].median(dim=1).values).all())
    ordered = a[which == list(trials.CORNERS).index("sorted")].float()
    assert torch.equal(ordered, ordered.sort(dim=1).values)
    largest = a[which == list(trials.CORNERS).index("outlier")].argmax(dim=1)
    assert len(set(largest.tolist())) > 1 and largest.tolist() != sorted(largest.tolist())
    apart = a[which == list(trials.CORNERS).index("strided")].float()
    for number, row in enumerate(apart):
        stride = 2 << number % (row.numel().bit_length() - 2)
        assert torch.equal(row[stride - 1 :: stride], row.sort().values[-row.numel() // stride :])


def test_a_wrong_output_says_where() -> None:
    problem, made = parse_shape_key("matmul_f32fp32_32x32x32"), torch.ones(32, 32)
    output = made @ made
    assert [each.worst for each in trials.judged("random", problem, [made, made], [output])] == [""]
    output[3, 17] += 5
    (wrong,) = trials.judged("random", problem, [made, made], [output])
    assert (complaint(wrong) or "").endswith("; at [3, 17] it is 37, not 32, and 1 of 1,024 elements are off")
    output[3, 18] = math.nan
    (wrong,) = trials.judged("exact", problem, [made, made], [output])
    assert wrong.worst == "at [3, 18] it is nan, not 32"


def test_a_skipped_integer_says_that_it_may_not_be_written() -> None:
    problem, x = parse_shape_key("topk_f32fp32_16x64x8"), torch.arange(1024.0).view(16, 64)
    values, indices = x.topk(8)
    indices[2, 3] = trials.poison_of(indices)
    _, wrong = trials.judged("random", problem, [x], [values, indices])
    assert "(or was not written), not 60, and 1 of 128 elements are off" in wrong.worst


@pytest.mark.parametrize(("operator", "right"), [("attention", True), ("causalattention", False)])
def test_the_limit_of_an_uneven_output_follows_the_row(operator: str, right: bool) -> None:
    """A long query weighs few keys, so its row is larger, and so are its errors."""
    problem = parse_shape_key(f"{operator}_fp16fp32_1x1x1x256x64x64")
    expected = 0.25 * torch.randn(problem.output_shape, generator=torch.Generator().manual_seed(0))
    expected[0, 0, 5] *= 4

    def off_in(row: int) -> str | None:
        output = expected.clone()
        output[0, 0, row, 3] += 2e-3
        return complaint(trials.compare("timed", problem, output, expected))

    assert (off_in(5) is None) is right
    assert "max_abs_err=0.00" in (off_in(6) or "")
