"""The addition in both spellings, for a GPU."""

import tilelang.language as T


def lazy(length: int):
    """Returns a PrimFunc."""

    @T.prim_func
    def main(
        A: T.Tensor((length,), "float32"),
        B: T.Tensor((length,), "float32"),
        C: T.Tensor((length,), "float32"),
    ):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(length):
                C[i] = A[i] + B[i]

    return main


def eager(A, B, C):
    """Compiled at its first call, for the lengths that it gets."""
    length = T.const("length")
    A: T.Tensor[[length], T.float32]
    B: T.Tensor[[length], T.float32]
    C: T.Tensor[[length], T.float32]
    with T.Kernel(1, threads=128):
        for i in T.Parallel(length):
            C[i] = A[i] + B[i]
