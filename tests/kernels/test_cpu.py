"""The CPU families compile, compute the right thing, and refuse what they cannot do."""

from collections.abc import Callable
from typing import Any

import pytest
import tilelang
import torch

from harness.iteration import Program
from harness.judge.facts.problem import Problem, parse_shape_key
from kernels.cpu import plain_loops, register_blocked, scalar_gemm

OPTIMIZED = ("-O2", "-march=native")
MATMUL = parse_shape_key("matmul_f32fp32_32x32x32")
LINEAR = parse_shape_key("linear_f32fp32_32x32x32")


def product_of(program: Program, problem: Problem, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    kernel = tilelang.compile(
        program.prim_func,
        out_idx=None,
        target="c",
        pass_configs=dict(program.pass_configs),
        compile_flags=list(program.compile_flags) or None,
    )
    M, N, _ = problem.dims
    C = torch.full((M, N), float("nan"))
    kernel(A, B, C)
    return C


def check(family: Callable[..., Program], shape_key: str, **levers: Any) -> None:
    problem = parse_shape_key(shape_key)
    M, N, K = problem.dims
    transpose_B = problem.operator == "linear"
    B_shape = (N, K) if transpose_B else (K, N)
    program = family(problem, **levers)
    generator = torch.Generator().manual_seed(M * N + K)
    A, B = (torch.randn(shape, generator=generator) for shape in ((M, K), B_shape))
    expected = A.double() @ (B.T if transpose_B else B).double()
    C = product_of(program, problem, A, B)
    assert ((C - expected).norm() / expected.norm()).item() < 2e-6

    A, B = (torch.randint(-2, 3, shape, generator=generator).float() for shape in ((M, K), B_shape))
    assert torch.equal(product_of(program, problem, A, B), A @ (B.T if transpose_B else B))


@pytest.mark.parametrize("shape_key", ["matmul_f32fp32_16x48x32", "linear_f32fp32_16x48x32"])
def test_scalar_gemm(shape_key: str) -> None:
    check(scalar_gemm, shape_key, block_M=8, block_N=16, block_K=16)


@pytest.mark.parametrize("loop_order", ["mnk", "mkn", "knm"])
def test_plain_loops_take_any_shape(loop_order: str) -> None:
    check(plain_loops, "matmul_f32fp32_7x13x5", loop_order=loop_order)


def test_plain_loops_linear() -> None:
    check(plain_loops, "linear_f32fp32_7x13x5", loop_order="nkm", compile_flags=OPTIMIZED)


@pytest.mark.parametrize(
    ("shape_key", "levers"),
    [
        ("matmul_f32fp32_16x32x24", {"block_M": 8, "block_N": 32, "block_K": 24, "vector_width": 16}),
        ("matmul_f32fp32_16x32x24", {"block_M": 8, "block_N": 16, "block_K": 24, "vector_width": 8, "pack_B": False}),
        ("matmul_f32fp32_16x32x24", {"block_M": 8, "block_N": 16, "block_K": 8, "vector_width": 4, "unroll_K": 2}),
        ("matmul_f32fp32_16x33x24", {"block_M": 4, "block_N": 11, "block_K": 12, "vector_width": 1}),
        ("matmul_f32fp32_17x32x7", {"block_M": 6, "block_N": 16, "block_K": 7, "vector_width": 8}),
        ("matmul_f32fp32_3x16x7", {"block_M": 8, "block_N": 16, "block_K": 7, "vector_width": 16}),
        ("linear_f32fp32_17x32x45", {"block_M": 6, "block_N": 32, "block_K": 15, "vector_width": 16}),
        ("linear_f32fp32_16x32x64", {"block_M": 8, "block_N": 16, "block_K": 64, "vector_width": 16, "unroll_K": 4}),
    ],
)
def test_register_blocked(shape_key: str, levers: dict[str, Any]) -> None:
    check(register_blocked, shape_key, **levers, compile_flags=OPTIMIZED)


def test_register_blocked_without_flags() -> None:
    check(
        register_blocked, "matmul_f32fp32_8x32x16", block_M=4, block_N=32, block_K=16, vector_width=16, compile_flags=()
    )


BLOCKED: dict[str, Any] = {"block_M": 8, "block_N": 32, "block_K": 32, "vector_width": 16}


@pytest.mark.parametrize(
    ("family", "problem", "levers", "message"),
    [
        (scalar_gemm, MATMUL, {"block_M": 24, "block_N": 16, "block_K": 16}, "block_M=24 does not divide M=32"),
        (scalar_gemm, MATMUL, {"block_M": 0, "block_N": 16, "block_K": 16}, "block_M=0 does not divide"),
        (plain_loops, MATMUL, {"loop_order": "mnn"}, "loop_order='mnn' is not one of"),
        (register_blocked, MATMUL, BLOCKED | {"block_M": 0}, "block_M=0 is not positive"),
        (register_blocked, MATMUL, BLOCKED | {"block_N": 24}, "block_N=24 does not divide N=32"),
        (register_blocked, MATMUL, BLOCKED | {"block_K": -1}, "block_K=-1 does not divide K=32"),
        (register_blocked, MATMUL, BLOCKED | {"vector_width": 3}, "vector_width=3 is not one of"),
        (register_blocked, MATMUL, BLOCKED | {"block_N": 8}, "vector_width=16 does not divide block_N=8"),
        (register_blocked, MATMUL, BLOCKED | {"unroll_K": 5}, "unroll_K=5 does not divide block_K=32"),
        (register_blocked, LINEAR, BLOCKED | {"pack_B": False}, "pack_B=False needs"),
        (register_blocked, MATMUL, BLOCKED | {"block_M": 1024}, "vector operations per step"),
    ],
)
def test_impossible_levers_are_refused(
    family: Callable[..., Program], problem: Problem, levers: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as error:
        family(problem, **levers)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("shape_key", ["matmul_bf16fp32_32x32x32", "matmul_fp16fp32f32_32x32x32"])
def test_only_float32(shape_key: str) -> None:
    with pytest.raises(ValueError, match="not float32 throughout"):
        register_blocked(parse_shape_key(shape_key), **BLOCKED)


def test_stack_is_bounded() -> None:
    deep = parse_shape_key("matmul_f32fp32_32x32x65536")
    with pytest.raises(ValueError, match="bytes of stack"):
        register_blocked(deep, block_M=8, block_N=32, block_K=65536, vector_width=16)
    with pytest.raises(ValueError, match="bytes of stack"):
        scalar_gemm(deep, block_M=32, block_N=32, block_K=65536)
