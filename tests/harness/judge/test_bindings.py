"""A kernel that leaves dimensions symbolic is judged at several bindings, and must be one kernel for all of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.judge.bindings import others
from harness.judge.facts.problem import parse_shape_key
from harness.judge.facts.signature import Signature, mismatch
from harness.records.results import Record
from tests.harness.checkout import BASELINE, Checkout

SHAPES = ("linear_f32fp32_8x16x32", "linear_f32fp32_13x16x32", "linear_f32fp32_40x16x32")
SOURCE = '''"""Rows in tiles of four: {idea}."""

import tilelang.cpu.language as T

from harness.iteration import Program

PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=4)


def build(problem):
    rows, N, K = problem.dims
    M = T.dynamic("M")
    block_M = {block_M}

    @T.prim_func
    def kernel(A: T.Tensor((M, K), "float32"), W: T.Tensor((N, K), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, block_M)) as bm:
            for i in T.serial({height}):
                for n in T.serial(N):
                    C[bm * block_M + i, n] = 0.0
                    for k in T.serial(K):
                        C[bm * block_M + i, n] += A[bm * block_M + i, k] * W[n, k]

    return Program(kernel{dynamic})
'''
FORM = {
    "block_M": "CONFIG['block_M']",
    "height": "T.min(block_M, M - bm * block_M)",
    "dynamic": ", dynamic=('M',)",
}
# Iteration -> what of the form it changes.
ITERATIONS = {
    "iter001_honest": {},
    "iter002_chooses_by_rows": {"height": f"{FORM['height']} if rows < 10 else T.min(M - bm * block_M, block_M)"},
    "iter003_whole_tiles_only": {"height": "T.if_then_else(M - bm * block_M < block_M, 0, block_M)"},
    "iter004_undeclared": {"dynamic": ""},
    "iter005_other_dimension": {"dynamic": ", dynamic=('Q',)"},
}
AT_THE_FIRST = ("iter004_undeclared", "iter005_other_dimension")


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], Record]]:
    """The newest record by iteration and shape key, after one run over three bindings."""
    checkout = Checkout.create(tmp_path_factory.mktemp("bindings") / "checkout")
    for shape in SHAPES:
        checkout.write("iter000_torch_matmul", BASELINE, shape)
        for name, changes in ITERATIONS.items():
            if name in AT_THE_FIRST and shape != SHAPES[0]:
                continue
            checkout.write(name, SOURCE.format(idea=name[8:].replace("_", " "), **FORM | changes), shape)
    checkout.run("verify", "--gpu", "cpu")
    yield {(each.iteration, shape): each for shape in SHAPES for each in checkout.records(shape)}
    checkout.end()


@pytest.mark.slow
def test_one_kernel_passes_at_every_binding(judged: dict[tuple[str, str], Record]) -> None:
    records = [judged["iter001_honest", shape] for shape in SHAPES]
    assert [each.status for each in records] == ["passed"] * 3, [each.reason for each in records]
    assert {each.dynamic for each in records} == {("M",)}
    assert len({each.build.traced_sha256 for each in records if each.build}) == 1
    assert all(each.verification for each in records)


@pytest.mark.slow
def test_a_build_that_chooses_by_a_dynamic_dimension_is_rejected_with_its_line(
    judged: dict[tuple[str, str], Record],
) -> None:
    for shape in SHAPES:
        record = judged["iter002_chooses_by_rows", shape]
        assert record.cause == "not_pinned"
        assert "build() says that M is dynamic, and makes another kernel for linear_f32fp32_" in (record.reason or "")
        assert "iter002_chooses_by_rows.py:25: return Program(" in (record.reason or "")


@pytest.mark.slow
def test_a_kernel_that_is_wrong_beyond_its_last_whole_tile_fails_at_that_binding(
    judged: dict[tuple[str, str], Record],
) -> None:
    verdicts = [judged["iter003_whole_tiles_only", shape].cause for shape in SHAPES]
    assert verdicts == [None, "wrong_result", None]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("iter004_undeclared", "float32[symbolic,32], linear_f32fp32_8x16x32 has float32[8,32]; name symbolic dim"),
        ("iter005_other_dimension", "declares dynamic dimensions Q; linear_f32fp32_8x16x32 has M, N, K"),
    ],
)
def test_what_is_not_declared_right_is_refused_in_one_line(
    judged: dict[tuple[str, str], Record], name: str, told: str
) -> None:
    record = judged[name, SHAPES[0]]
    assert record.cause == "wrong_problem"
    assert told in (record.reason or "")
    assert "\n" not in (record.reason or "")


@pytest.mark.parametrize(
    ("dynamic", "rows", "columns", "fits"),
    [
        ((), 8, 16, True),
        ((), -1, 16, False),
        (("M",), -1, 16, True),
        (("M",), 8, 16, False),  # declared, and made for one size
        (("M",), -1, -1, False),
        (("M", "N"), -1, -1, True),
    ],
)
def test_a_size_is_symbolic_where_it_is_declared(dynamic: tuple[str, ...], rows: int, columns: int, fits: bool) -> None:
    problem = parse_shape_key(SHAPES[0])
    shapes = (rows, 32), (columns, 32), (rows, columns)
    signature: Signature = tuple((shape, "float32") for shape in shapes)
    assert (mismatch(signature, problem, dynamic) is None) == fits


def test_bindings_are_the_same_bytes_for_problems_that_differ_in_dynamic_dimensions(
    tmp_path: Path,
) -> None:
    checkout = Checkout(tmp_path)
    path = checkout.write("iter001_any_rows", "same", SHAPES[0])
    checkout.write("iter004_any_rows", "same", SHAPES[1])
    checkout.write("iter001_any_rows", "other", SHAPES[2])
    checkout.write("iter001_any_rows", "same", "linear_f32fp32_8x16x64")
    checkout.write("iter001_any_rows", "same", "matmul_f32fp32_13x16x32")
    found = others(checkout.root, checkout.tree.parse(path), ("M",))
    assert [(each.shape_key, each.name) for each in found] == [(SHAPES[1], "iter004_any_rows")]
