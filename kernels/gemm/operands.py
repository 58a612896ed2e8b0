"""A matrix product as WGMMA and TMA take it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import tilelang.language as T

from harness.iteration import DTYPE_BYTES, Problem
from kernels.operands import PLAIN, Operands, require


@dataclass(frozen=True)
class TensorCoreOperands(Operands):
    @classmethod
    def of(cls, problem: Problem, operators: tuple[str, ...] = PLAIN) -> Self:
        made = super().of(problem, operators)
        require(
            made.transpose_B or made.input_bytes == 2,
            f"{problem}: WGMMA takes {problem.input} operands K-major only; use operator linear",
        )
        require(made.input_bytes <= 2, f"{problem}: {problem.input} inputs are not supported")
        return made

    @property
    def input_bytes(self) -> int:
        return DTYPE_BYTES[self.input]

    @property
    def output_bytes(self) -> int:
        return DTYPE_BYTES[self.output]

    def B_region(self, B: Any, n0: Any, k0: Any, block_N: int, block_K: int) -> Any:
        """The tile of the tensor B that starts at column n0 of C and at step k0 of K."""
        if self.transpose_B:
            return B[n0 : n0 + block_N, k0 : k0 + block_K]
        return B[k0 : k0 + block_K, n0 : n0 + block_N]

    def kernel(self, run: Callable[..., None]) -> Any:
        """The PrimFunc of ``run(A, B, C)``, or of ``run(A, B, C, scale_A, scale_B)`` where the problem has scales."""
        return self._with_scales(run) if self.scaled else self._without_scales(run)

    def _without_scales(self, run: Callable[..., None]) -> Any:
        @T.prim_func
        def main(
            A: T.Tensor(self.A_shape, self.input),
            B: T.Tensor(self.B_shape, self.input),
            C: T.Tensor(self.C_shape, self.output),
        ):
            run(A, B, C)

        return main

    def _with_scales(self, run: Callable[..., None]) -> Any:
        @T.prim_func
        def main(
            A: T.Tensor(self.A_shape, self.input),
            B: T.Tensor(self.B_shape, self.input),
            scale_A: T.Tensor((1,), "float32"),
            scale_B: T.Tensor((1,), "float32"),
            C: T.Tensor(self.C_shape, self.output),
        ):
            run(A, B, C, scale_A, scale_B)

        return main

    def require_tma(self) -> None:
        """TMA needs row pitches in multiples of 16 bytes."""
        pitches = {
            "A": self.K * self.input_bytes,
            "B": self.B_shape[1] * self.input_bytes,
            "C": self.N * self.output_bytes,
        }
        for name, pitch in pitches.items():
            require(pitch % 16 == 0, f"TMA needs a row pitch in multiples of 16 bytes; that of {name} is {pitch}")
