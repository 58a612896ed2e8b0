"""One kernel in both spellings: an addition too small to hide what its call costs."""

from collections.abc import Callable
from typing import Any

Spelling = Callable[..., Any]


def addition(*, cpu: bool) -> tuple[Spelling, Spelling]:
    """The addition for TileLang's target c, or for a GPU.

    The lazy spelling returns a PrimFunc for a length; the eager one is compiled at its first call.
    """
    import tilelang.cpu.language
    import tilelang.language

    T: Any = tilelang.cpu.language if cpu else tilelang.language
    loop, threads = (T.serial, {}) if cpu else (T.Parallel, {"threads": 128})

    def lazy(length):
        @T.prim_func
        def main(
            A: T.Tensor((length,), "float32"),
            B: T.Tensor((length,), "float32"),
            C: T.Tensor((length,), "float32"),
        ):
            with T.Kernel(1, **threads):
                for i in loop(length):
                    C[i] = A[i] + B[i]

        return main

    def eager(A, B, C):
        length = T.const("length")
        A: T.Tensor[[length], T.float32]
        B: T.Tensor[[length], T.float32]
        C: T.Tensor[[length], T.float32]
        with T.Kernel(1, **threads):
            for i in loop(length):
                C[i] = A[i] + B[i]

    return lazy, eager
