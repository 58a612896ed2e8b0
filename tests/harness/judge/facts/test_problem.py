"""A shape key is parsed in one place, says exactly what it means, and names its wrong part."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError, printable
from harness.judge.facts.dtypes import TOKENS
from harness.judge.facts.problem import (
    ACCUMULATORS,
    DTYPE_BYTES,
    DTYPES,
    MAX_DIMENSION,
    OUTPUTS,
    Problem,
    parse_shape_key,
)
from harness.operators import OPERATORS


def whole(sized: tuple[str, tuple[int, ...]]) -> tuple[str, tuple[int, ...]]:
    """The same, with sizes that the operator takes: no more of a part than the whole has, and multiples."""
    name, sizes = sized
    dims = dict(zip(OPERATORS[name].dims, sizes, strict=True))
    if "K % 128 == 0" in OPERATORS[name].requires:
        dims["K"] = max(dims["K"] // 128, 1) * 128
    if name == "varlenattention":  # B sequences of at most L tokens
        dims["N"] = min(dims["N"], dims["B"] * dims["L"])
    if "K <= N" in OPERATORS[name].requires:
        dims["N"], dims["K"] = max(dims["N"], dims["K"]), min(dims["N"], dims["K"])
    for first, second in OPERATORS[name].multiples:
        dims[first] = max(dims[first] // dims[second], 1) * dims[second]
    return name, tuple(dims.values())


def largest(name: str) -> int:
    """Of a dimension; products of two are indices where an input holds those."""
    indexed = any(each.fill.whole for each in OPERATORS[name].inputs.values())
    return math.isqrt(MAX_DIMENSION) if indexed else MAX_DIMENSION


sized = (
    st.sampled_from(sorted(OPERATORS))
    .flatmap(
        lambda name: st.tuples(st.just(name), st.tuples(*[st.integers(1, largest(name))] * len(OPERATORS[name].dims)))
    )
    .map(whole)
)
taken = sized.flatmap(lambda each: st.tuples(st.just(each), st.sampled_from(OPERATORS[each[0]].dtypes)))
problems = st.builds(
    lambda operator, **dtypes: Problem(
        operator=operator[0][0], dims=operator[0][1], input=TOKENS[operator[1]], **dtypes
    ),
    operator=taken,
    accumulator=st.sampled_from(sorted(ACCUMULATORS.values())),
    output=st.sampled_from([DTYPES[token] for token in OUTPUTS]),
)


@given(problems)
def test_every_problem_comes_back_from_its_key(problem: Problem) -> None:
    assert parse_shape_key(problem.shape_key) == problem


@given(taken, st.sampled_from(sorted(ACCUMULATORS)), st.sampled_from(OUTPUTS))
def test_every_key_comes_back_from_its_problem(
    operator: tuple[tuple[str, tuple[int, ...]], str], accumulator: str, output: str
) -> None:
    (name, dims), source = operator
    key = f"{name}_{source}{accumulator}{'' if output == source else output}_{'x'.join(map(str, dims))}"
    assert parse_shape_key(key).shape_key == key


def test_matmul_is_row_major_a_times_b() -> None:
    problem = parse_shape_key("matmul_bf16fp32_2x3x5")
    assert problem.inputs == ((2, 5), (5, 3))
    assert problem.output_shape == (2, 3)
    assert (problem.flops, problem.terms_of(0)) == (2 * 2 * 3 * 5, 5)
    assert problem.bytes == 2 * (2 * 5 + 5 * 3 + 2 * 3)


def test_linear_multiplies_by_the_transpose() -> None:
    problem = parse_shape_key("linear_e4m3fp32bf16_2x3x5")
    assert problem.tensors == (((2, 5), "float8_e4m3fn"), ((3, 5), "float8_e4m3fn"), ((2, 3), "bfloat16"))
    assert problem.bytes == 2 * 5 + 3 * 5 + 2 * (2 * 3)


def test_factors_are_float32_beside_inputs_of_any_dtype() -> None:
    problem = parse_shape_key("blockscaledlinear_e4m3fp32bf16_2x130x260")
    assert problem.tensors == (
        ((2, 260), "float8_e4m3fn"),
        ((130, 260), "float8_e4m3fn"),
        ((3, 2), "float32"),
        ((2, 3), "float32"),
        ((2, 130), "bfloat16"),
    )
    assert problem.bytes == 2 * 260 + 130 * 260 + 4 * (3 * 2 + 2 * 3) + 2 * (2 * 130)


def test_the_output_dtype_is_the_inputs_where_it_is_not_written() -> None:
    assert parse_shape_key("matmul_fp16fp32_8x8x8").output == "float16"
    assert parse_shape_key("matmul_fp16fp32f32_8x8x8").output == "float32"


def test_every_dtype_has_a_size() -> None:
    assert set(DTYPES.values()) <= set(DTYPE_BYTES)


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("", "does not have the form"),
        ("matmul_bf16fp32", "does not have the form"),
        ("matmul_bf16fp32_8x8x8_extra", "matmul has no scalars"),
        ("conv_bf16fp32_8x8x8", f"unknown operator 'conv'; known: {', '.join(OPERATORS)}"),
        ("Matmul_bf16fp32_8x8x8", "unknown operator 'Matmul'"),
        ("matmul_int8fp32_8x8x8", "unknown dtypes 'int8fp32'"),
        ("matmul_bf16fp64_8x8x8", "unknown dtypes 'bf16fp64'"),
        ("matmul_bf16_8x8x8", "unknown dtypes 'bf16'"),
        ("matmul_bf16fp32int8_8x8x8", "unknown dtypes 'bf16fp32int8'"),
        ("matmul_e4m3fp32_8x8x8", "an output is bf16, fp16, f32; write it last"),
        ("matmul_bf16fp32e4m3_8x8x8", "an output is bf16, fp16, f32"),
        ("attention_bf16fp32_1x6x4x8x8x8", "H=6 is no multiple of G=4"),
        ("matmul_bf16fp32_8x8", "dimensions '8x8' are not MxNxK in positive integers"),
        ("matmul_bf16fp32_8x8x8x8", "dimensions '8x8x8x8'"),
        ("matmul_bf16fp32_0x8x8", "dimensions '0x8x8'"),
        ("matmul_bf16fp32_08x8x8", "dimensions '08x8x8'"),
        ("matmul_bf16fp32_-8x8x8", "dimensions '-8x8x8'"),
        ("matmul_bf16fp32_8X8X8", "dimensions '8X8X8'"),
        ("matmul_bf16fp32_8x8x٨", "dimensions '8x8x٨'"),
        ("matmul_bf16fp32_8x8x8\n", r"dimensions '8x8x8\n'"),
        ("matmul_bf16fp32_8x8x2147483648", "larger than 2147483647"),
        (f"matmul_bf16fp32_8x8x{'9' * 5000}", "larger than 2147483647"),
    ],
)
def test_the_wrong_part_is_named(key: str, names: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_shape_key(key)
    assert names in str(error.value)
    assert str(error.value).startswith(printable(f"shape key '{key}")[:500])


near_misses = st.lists(
    st.sampled_from(
        [*OPERATORS, *DTYPES, *ACCUMULATORS, "_", "__", "x", "8", "0", "-1", "٨", " ", "\n", "1e3", "\x00"]
    ),
    max_size=12,
).map("".join)


@given(st.text() | near_misses)
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        problem = parse_shape_key(text)
    except UsageError:
        return
    assert parse_shape_key(problem.shape_key) == problem
