"""A description that does not fit itself is refused in one line that names the part."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.errors import UsageError
from harness.judge.facts.fills import Integers, Lengths, Mask, Normal, Offsets, PageTable
from harness.judge.facts.operator import Input, Operator, Output
from harness.judge.facts.problem import parse_shape_key
from harness.operators import OPERATORS

PLAIN = Operator(
    name="plain",
    dims=("M", "N"),
    scalars={"eps": 1e-6, "causal": 0},
    inputs={"x": Input("M, N"), "place": Input("M", "int32", Integers("N"))},
    outputs={"y": Output("M, N"), "best": Output("M", "int64"), "again": Output(inplace="x")},
    flops="M * N",
    reference=lambda x, place: (x, place, x),
)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (dict(inputs={"x": Input("M, Z"), "y2": Input("N")}), "input 'x': 'Z' in 'M, Z' is no dimension"),
        (dict(inputs={"x": Input("M, N +")}), "input 'x': 'M, N +' is no expression"),
        (dict(dims=("M", "N", "K")), "no tensor has dimension 'K'"),
        (dict(flops="M * Q"), "flops: 'Q'"),
        (dict(inputs={"x": Input("M, N", "float12")}), "'x': unknown dtype 'float12'"),
        (dict(inputs={"x": Input("M, N", "int32")}), "input 'x': Normal fills no int32"),
        (dict(inputs={"x": Input("M, N", fill=Mask())}), "input 'x': Mask fills no bfloat16"),
        (dict(outputs={"y": Output("M, N", "float8_e5m2")}), "output 'y': no limit tells a wrong float8_e5m2"),
        (dict(outputs={"y": Output(inplace="z")}), "output 'y': 'z' is no input"),
        (dict(outputs={"y": Output()}), "output 'y' has neither a shape"),
        (dict(outputs={"x": Output("M, N")}), "an input and an output are called 'x'"),
        (dict(outputs={}), "no inputs or no outputs"),
        (dict(rows=("z",)), "rows: 'z' is no input"),
        (dict(dtypes=("bf17",)), "dtypes: unknown 'bf17'"),
        (dict(exact_in="int8"), "exact_in: 'int8'"),
        (dict(sketch=lambda *_: (0, 0)), "a sketch is of one output"),
    ],
)
def test_a_description_that_does_not_fit_itself_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match="^operator plain: ") as error:
        replace(PLAIN, **change)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("key", "change", "says"),
    [
        ("plain_f32fp32_8x0", {}, "dimensions '8x0'"),
        ("plain_f32fp32_8x4_size2", {}, "its scalars are eps1e-06, causal0"),
        ("plain_f32fp32_8x4_eps1e-06", {}, "is written plain_f32fp32_8x4"),
        ("plain_f32fp32_8x4_causal1_eps1e-05", {}, "is written plain_f32fp32_8x4_eps1e-05_causal1"),
        ("plain_f32fp32_8x4_eps1_causal1_eps2", {}, "is written plain_f32fp32_8x4_eps2_causal1"),
        ("plain_f32fp32_8x4", dict(requires=("M < N",)), "plain requires M < N"),
        ("plain_f32fp32_8x4", dict(outputs={"y": Output("M - 8")}), "'y' of plain has the shape [0]"),
        ("plain_f32fp32_8x4", dict(outputs={"y": Output("M / 2")}), "'y' of plain has the shape [4.0]"),
        ("plain_e4m3fp32bf16_8x4", dict(outputs={"y": Output("M, N", "input")}), "an output of plain is an 8-bit"),
        ("plain_f32int32_8x4", {}, "unknown dtypes 'f32int32'"),
        ("plain_int8int32_8x4", {}, "unknown dtypes 'int8int32'"),
    ],
)
def test_a_key_that_an_operator_does_not_take_is_refused(
    key: str, change: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OPERATORS, "plain", replace(PLAIN, **change))
    with pytest.raises(UsageError) as error:
        parse_shape_key(key)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("fill", "says"),
    [
        (Integers("N", "N"), "no integer lies from 4 up to, not including, 4"),
        (Integers(2**40), "int32 cannot hold"),
        (Lengths("N", 9), "no length lies from 9 to 4"),
        (Offsets("N", most="1"), "groups of at most 1 do not sum to 4"),
        (PageTable("N - 2"), "3 entries name more than 2 pages"),
        (Mask(2), "density 2 is not from 0 to 1"),
    ],
)
def test_a_fill_that_cannot_be_met_is_refused(fill: Any, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {**PLAIN.inputs, "extra": Input("3", "int32", fill)}
    monkeypatch.setitem(OPERATORS, "plain", replace(PLAIN, inputs=given))
    with pytest.raises(UsageError, match="input 'extra' of plain cannot be filled: ") as error:
        parse_shape_key("plain_f32fp32_8x4")
    assert says in str(error.value)


def test_scalars_in_place_outputs_and_fixed_dtypes_follow_from_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        OPERATORS, "plain", replace(PLAIN, dtypes=("bf16", "int8"), inputs={"x": Input("M, N", fill=Integers(3))})
    )
    problem = parse_shape_key("plain_int8int32_8x4_eps0.5_causal1")
    assert (problem.input, problem.accumulator, problem.output) == ("int8", "int32", "int8")
    assert problem.scalars == {"eps": 0.5, "causal": 1}
    assert problem.tensors == (((8, 4), "int8"), ((8, 4), "int8"), ((8,), "int64"))
    assert problem.places == (1, 2, 0)
    assert problem.bytes == 3 * 8 * 4 + 8 * 8, "what is overwritten moves twice"
    assert parse_shape_key("plain_bf16fp32_8x4").scalars == PLAIN.scalars


def test_bytes_are_what_the_operator_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPERATORS, "plain", replace(PLAIN, bytes="M * N // 2"))
    assert parse_shape_key("plain_f32fp32_8x4").bytes == 16


def _eps(x: object, *, eps: float, N: int, mode: int = 0) -> None: ...


@pytest.mark.parametrize(("function", "asked"), [(_eps, {"eps": 1e-6, "N": 4}), (lambda x: x, {})])
def test_a_function_gets_the_scalars_and_dimensions_that_it_names(
    function: Callable[..., object], asked: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OPERATORS, "plain", PLAIN)
    assert parse_shape_key("plain_f32fp32_8x4").asked_by(function) == asked


def test_rows_can_be_computed_alone_only_where_no_other_input_has_them() -> None:
    alone = replace(PLAIN, inputs={"x": Input("M, N", fill=Normal()), "w": Input("N")}, rows=("x",))
    assert alone.row_axis == "M"
    assert replace(alone, inputs={**alone.inputs, "keys": Input("M, N")}).row_axis is None
    assert replace(alone, rows=()).row_axis is None
