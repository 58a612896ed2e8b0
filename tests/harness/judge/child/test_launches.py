"""What a launch may consist of, by the operators that were noted."""

import pytest

from harness.judge.child.launches import complaint_of_launches
from harness.judge.facts.problem import parse_shape_key
from harness.judge.messages import Inspected


@pytest.mark.parametrize(
    ("key", "operator", "refused"),
    [
        ("matmul_f32fp32_16x16x16", "copy_", False),  # a kernel that allocates its output ends so
        ("matmul_f32fp32_16x16x16", "mm", True),
        ("copy_f32fp32_16x16", "empty", False),
        ("copy_f32fp32_16x16", "copy_", True),  # it would be all of the work
        ("contiguous_f32fp32_16x16", "_to_copy", True),
    ],
)
def test_a_copy_by_torch_is_no_kernel_where_a_copy_is_asked_for(key: str, operator: str, refused: bool) -> None:
    found = Inspected((), 0, (), (operator,))
    assert (complaint_of_launches(found, parse_shape_key(key), cpu=True) is not None) == refused
