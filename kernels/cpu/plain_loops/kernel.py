"""Matrix product in three plain loops, in any order."""

import itertools

import tilelang.cpu.language as T

from harness.iteration import Problem, Program
from kernels.cpu.operands import CpuOperands
from kernels.operands import require

LOOP_ORDERS = tuple("".join(order) for order in itertools.permutations("mnk"))


def plain_loops(problem: Problem, *, loop_order: str, compile_flags: tuple[str, ...] = ()) -> Program:
    """Three loops straight over A, B and C, no tiles and no copies.

    The innermost loop decides what the compiler can vectorize. For ``matmul`` that is n, since rows of B and C are
    contiguous. For ``linear`` no order has contiguous rows of both C and W.

    Levers: ``loop_order``, outermost first, as in "mkn"; ``compile_flags``.
    Limits: any M, N and K; nothing is kept in registers, and large operands fall out of the caches.
    Reached on one core with AVX-512, matmul, in GFLOPS: 0.6 to 1.1 without flags, 59 with "mkn" and -O3 -march=native.
    """
    operands = CpuOperands.of(problem)
    require(loop_order in LOOP_ORDERS, f"loop_order='{loop_order}' is not one of {', '.join(LOOP_ORDERS)}")
    extents = {"m": operands.M, "n": operands.N, "k": operands.K}
    outer, middle, inner = (extents[axis] for axis in loop_order)
    m, n, k = (loop_order.index(axis) for axis in "mnk")
    transpose_B = operands.transpose_B

    @T.prim_func
    def main(
        A: T.Tensor(operands.A_shape, "float32"),
        B: T.Tensor(operands.B_shape, "float32"),
        C: T.Tensor(operands.C_shape, "float32"),
    ):
        with T.Kernel(1):
            for i, j in T.grid(operands.M, operands.N):
                C[i, j] = 0.0
            for x, y, z in T.grid(outer, middle, inner):
                if transpose_B:
                    C[(x, y, z)[m], (x, y, z)[n]] += A[(x, y, z)[m], (x, y, z)[k]] * B[(x, y, z)[n], (x, y, z)[k]]
                else:
                    C[(x, y, z)[m], (x, y, z)[n]] += A[(x, y, z)[m], (x, y, z)[k]] * B[(x, y, z)[k], (x, y, z)[n]]

    return Program(main, compile_flags=compile_flags)
