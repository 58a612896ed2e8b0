"""Matrix product in register tiles: a block of C stays in vector registers while all of K passes by."""

import functools
import math
from typing import Any

import tilelang.cpu.language as T

from harness.iteration import Problem, Program
from kernels.cpu.operands import CpuOperands
from kernels.operands import require

VECTOR_WIDTHS = (1, 4, 8, 16)
PANEL_BYTES_MAX = 1 << 20  # a packed panel lives on the stack
UNROLLED_MAX = 1024  # vector operations per iteration of the inner loop, beyond which compiling takes minutes
TRANSPOSE_RUN = 16  # floats of one cache line


def vector_type(vector_width: int) -> str | None:
    """C++ for a vector of floats that gcc and clang keep in a register, on any instruction set.

    TileLang's own ``float16`` is an array of 16 floats, which lives in memory. ``aligned(4)``: rows of B and C begin
    anywhere.
    """
    if vector_width == 1:
        return None
    return f"""
#pragma GCC diagnostic ignored "-Wpsabi"
struct register_vector {{
  typedef float lanes_t __attribute__((vector_size({4 * vector_width}), aligned(4), may_alias));
  lanes_t lanes;
  register_vector() = default;
  register_vector(const lanes_t &x) : lanes(x) {{}}
  explicit register_vector(float x) : lanes(x - lanes_t{{}}) {{}}
  register_vector operator+(const register_vector &o) const {{ return register_vector(lanes + o.lanes); }}
  register_vector operator*(const register_vector &o) const {{ return register_vector(lanes * o.lanes); }}
}};
#define float{vector_width} register_vector
"""


def register_blocked(
    problem: Problem,
    *,
    block_M: int,
    block_N: int,
    block_K: int,
    vector_width: int,
    unroll_K: int = 1,
    pack_B: bool = True,
    compile_flags: tuple[str, ...] = (),
) -> Program:
    """A tile of C in registers, a packed panel of B in the cache, A read where it lies.

    A k step multiplies block_N values of B by block_M scalars of A: block_M + block_N loads for
    2 block_M block_N flops. Packing puts the block_N columns that a tile reads side by side. As rows of B they lie N
    apart and fall into a few sets of the cache. For ``linear`` the packing also transposes.

    Levers:
      block_M, block_N  the tile; (block_M + 1) * block_N / vector_width vectors must fit the register file: 32 of
                        16 lanes with AVX-512, 16 of 8 lanes with AVX2, 32 of 4 lanes with NEON
      block_K           depth of a packed panel, K for one panel; more panels read C back and add to it
      vector_width      lanes: 4, 8 or 16; 1 leaves plain loops to the compiler's own vectorizer
      unroll_K          k steps per iteration of the inner loop; not with -ffast-math, which adds the products of two
                        steps first: half of the fused multiply-adds become additions
      pack_B            False reads B in place (``matmul`` only)

    Limits: float32; block_N divides N, block_K divides K, unroll_K divides block_K. M is free: the rows after the last
    whole tile get a smaller tile. One core.

    Reached on one core (Zen 5), 256x256x256, in GFLOPS: 205 to 225 with AVX-512 (8x32 tile, 16 lanes); 111 with AVX2
    (6x16, 8 lanes); torch.matmul has 92 to 100. ``linear`` 128x256x512 reaches 177, since packing takes time. With
    vector_width=1 the compiler decides: 208 to 232 where B is read in place, 90 from a packed panel.
    """
    operands = CpuOperands.of(problem)
    M, N, K, transpose_B = operands.M, operands.N, operands.K, operands.transpose_B
    require(block_M > 0, f"block_M={block_M} is not positive")
    operands.require_whole("N", block_N)
    operands.require_whole("K", block_K)
    require(vector_width in VECTOR_WIDTHS, f"vector_width={vector_width} is not one of {VECTOR_WIDTHS}")
    require(block_N % vector_width == 0, f"vector_width={vector_width} does not divide block_N={block_N}")
    require(unroll_K > 0 and block_K % unroll_K == 0, f"unroll_K={unroll_K} does not divide block_K={block_K}")
    require(pack_B or not transpose_B, "pack_B=False needs contiguous columns, so operator matmul, not linear")
    panel_bytes = 4 * block_K * block_N
    require(
        panel_bytes <= PANEL_BYTES_MAX,
        f"a panel of block_K={block_K} x block_N={block_N} takes {panel_bytes} bytes of stack, more than "
        f"{PANEL_BYTES_MAX}",
    )
    unrolled = block_M * block_N // vector_width * unroll_K
    require(
        vector_width == 1 or unrolled <= UNROLLED_MAX,
        f"{unrolled} vector operations per step, more than {UNROLLED_MAX}: take a smaller block_M, block_N or unroll_K",
    )
    vectors = block_N // vector_width
    transpose_run = math.gcd(block_K, TRANSPOSE_RUN)
    # Accumulators reach registers only if every index is a constant in the generated code.
    unroll = T.serial if vector_width == 1 else functools.partial(T.unroll, explicit=True)

    def at(column: Any) -> Any:
        return column if vector_width == 1 else T.Ramp(column, 1, vector_width)

    def spread(value: Any) -> Any:
        return value if vector_width == 1 else T.Broadcast(value, vector_width)

    @T.macro
    def pack(B, panel, k0, n0):
        if transpose_B:
            for ko, j in T.grid(block_K // transpose_run, block_N):
                for ki in T.unroll(transpose_run, explicit=True):
                    panel[ko * transpose_run + ki, j] = B[n0 + j, k0 + ko * transpose_run + ki]
        else:
            for k in T.serial(block_K):
                for v in unroll(vectors):
                    panel[k, at(v * vector_width)] = B[k0 + k, at(n0 + v * vector_width)]

    @T.macro
    def multiply(A, B, C, rows, m0, n0, k0, B_row, B_column):
        tile = T.alloc_local((rows, block_N), "float32")
        for i in unroll(rows):
            for v in unroll(vectors):
                tile[i, at(v * vector_width)] = spread(T.float32(0))
        for ko in T.serial(block_K // unroll_K):
            for ki in T.unroll(unroll_K, explicit=True):
                for i in unroll(rows):
                    for v in unroll(vectors):
                        tile[i, at(v * vector_width)] = (
                            tile[i, at(v * vector_width)]
                            + spread(A[m0 + i, k0 + ko * unroll_K + ki])
                            * B[B_row + ko * unroll_K + ki, at(B_column + v * vector_width)]
                        )
        for i in unroll(rows):
            for v in unroll(vectors):
                if k0 == 0:
                    C[m0 + i, at(n0 + v * vector_width)] = tile[i, at(v * vector_width)]
                else:
                    C[m0 + i, at(n0 + v * vector_width)] = (
                        C[m0 + i, at(n0 + v * vector_width)] + tile[i, at(v * vector_width)]
                    )

    @T.macro
    def multiply_all(A, B, C, n0, k0, B_row, B_column):
        for bm in T.serial(M // block_M):
            multiply(A, B, C, block_M, bm * block_M, n0, k0, B_row, B_column)
        if M % block_M > 0:
            multiply(A, B, C, M % block_M, M - M % block_M, n0, k0, B_row, B_column)

    @T.prim_func
    def main(
        A: T.Tensor(operands.A_shape, "float32"),
        B: T.Tensor(operands.B_shape, "float32"),
        C: T.Tensor(operands.C_shape, "float32"),
    ):
        with T.Kernel(N // block_N, prelude=vector_type(vector_width)) as bn:
            for bk in T.serial(K // block_K):
                if pack_B:
                    panel = T.alloc_local((block_K, block_N), "float32")
                    pack(B, panel, bk * block_K, bn * block_N)
                    multiply_all(A, panel, C, bn * block_N, bk * block_K, 0, 0)
                else:
                    multiply_all(A, B, C, bn * block_N, bk * block_K, bk * block_K, bn * block_N)

    return Program(main, compile_flags=compile_flags)
