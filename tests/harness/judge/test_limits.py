"""The limits come from the dtypes and the terms, and a wrong result is complained of in one line."""

import math

import pytest

from harness.judge.facts.problem import parse_shape_key
from harness.judge.limits import complaint, limits
from harness.records.results import Trial


@pytest.mark.parametrize(
    ("key", "max_abs", "honest"),
    [
        ("matmul_bf16fp32_4096x4096x4096", 1e-2, 1.7e-3),
        ("matmul_fp16fp32_4096x4096x4096", 1e-3, 2.1e-4),
        ("linear_e4m3fp32bf16_4096x4096x4096", 1e-2, 1.7e-3),
    ],
)
def test_the_limits_are_the_contracts_and_lie_between_honest_and_one_dropped_k(
    key: str, max_abs: float, honest: float
) -> None:
    found = limits(parse_shape_key(key))
    dropped = 1 / math.sqrt(4096)
    assert found.max_abs == max_abs
    assert honest < found.rel < dropped / 4


def test_more_terms_are_granted_more_but_never_a_dropped_one() -> None:
    rel = [limits(parse_shape_key(f"matmul_f32fp32_8x8x{k}")).rel for k in (64, 4096, 1 << 20)]
    assert rel == sorted(rel)
    assert rel[-1] < 1 / math.sqrt(1 << 20)


@pytest.mark.parametrize("k", [1, 64, 4096, 16384])
def test_scaled_inputs_give_outputs_of_a_quarter(k: int) -> None:
    first, second = parse_shape_key(f"matmul_bf16fp32_8x8x{k}").scales
    assert first * second * math.sqrt(k) == pytest.approx(0.25)


RIGHT = Trial("random", 1e-3, 1e-4, 1e-2, 1e-3)
EXACT = Trial("exact", 0.0, None, None, None)


@pytest.mark.parametrize(
    ("trial", "says"),
    [
        (RIGHT, None),
        (EXACT, None),
        (Trial("random", None, None, 1e-2, 1e-3), "not finite"),
        (Trial("exact", None, None, None, None), "not finite"),
        (Trial("exact", 1.0, None, None, None), "must match bit for bit, max_abs_err=1"),
        (Trial("random", 0.02, 1e-4, 1e-2, 1e-3), "max_abs_err=0.02 is over 0.01"),
        (Trial("random", 1e-3, 2e-3, 1e-2, 1e-3), "rel_err=0.002 is over 0.001"),
        (Trial("random", 1e-3, None, 1e-2, 1e-3), "rel_err=inf is over 0.001"),
        (Trial("random", 1e-3, math.nan, 1e-2, 1e-3), "rel_err=nan"),
        (Trial("random", math.nan, 1e-4, 1e-2, 1e-3), "max_abs_err=nan"),
    ],
)
def test_a_complaint_says_what_is_wrong(trial: Trial, says: str | None) -> None:
    found = complaint(trial)
    if says is None:
        assert found is None
    else:
        assert found is not None
        assert says in found
        assert found.startswith(f"{trial.name} trial: ")
        assert "\n" not in found
