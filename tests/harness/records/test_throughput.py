"""One rule says in which unit the throughput of a problem is told."""

import msgspec
import pytest

from harness.catalog import gpus
from harness.judge.facts.problem import parse_shape_key
from harness.judge.limits import worst
from harness.records.results import Trial, worst_error
from harness.records.throughput import throughput
from harness.runs.result_line import result_line
from tests.harness.examples import measurement, record

LARGE = "matmul_bf16fp32_8192x8192x8192"


@pytest.mark.parametrize(
    ("shape_key", "told"),
    [
        (LARGE, "1100 TFLOPS"),
        ("linear_bf16fp32_64x8192x8192", "136.3 GB/s"),  # more flops than bytes, and still bound by memory on an H200
        ("copy_f32fp32_1024x1024", "8.389 GB/s"),
    ],
)
def test_the_unit_is_that_of_the_bound(shape_key: str, told: str) -> None:
    assert str(throughput(parse_shape_key(shape_key), gpus.find("h200"), 1.0)) == told


def test_a_result_line_tells_the_unit_of_the_board() -> None:
    made = record(shape_key="linear_bf16fp32_64x8192x8192", measurement=measurement(1.0, 1.1))
    assert "GB/s, ratio" in result_line(made, gpus.find("h200"))
    assert "TFLOPS, ratio" in result_line(msgspec.structs.replace(made, shape_key=LARGE), gpus.find("h200"))


def test_an_error_that_is_not_finite_is_the_worst() -> None:
    exact, scaled = Trial("exact", 0.0, None, None, None), Trial("scaled", 0.5, 0.1, 1.0, 1.0)
    broken = Trial("timed", None, None, 1.0, 1.0)
    assert worst([exact, broken, scaled]) == broken
    assert [worst_error([exact, scaled], name) for name in ("max_abs_err", "rel_err")] == [0.5, 0.1]
    assert [worst_error([broken, scaled], name) for name in ("max_abs_err", "rel_err")] == [None, None]
    assert worst_error([]) is None
