"""A matrix product as every family sees it: shapes and dtypes of A, B and C, and how a family refuses."""

from dataclasses import dataclass
from typing import Any, Self

from harness.iteration import Problem

PLAIN = ("matmul", "linear")


def require(condition: bool, message: str) -> None:
    """Raise ValueError with one line when a family's arguments cannot work."""
    if not condition:
        raise ValueError(message)


def ceildiv(a: int, b: int) -> int:
    """Of a whole number that is not negative; of an expression, an expression."""
    return (a + b - 1) // b


@dataclass(frozen=True)
class Operands:
    """C[M, N] = A[M, K] · B, where B is [K, N] (matmul) or [N, K] (linear and its kin, ``transpose_B``)."""

    M: Any  # an int, or a symbol where a launch has any number of rows
    N: int
    K: int
    input: str
    accumulator: str
    output: str
    transpose_B: bool
    scaled: bool  # by one factor for each of A and B

    @classmethod
    def of(cls, problem: Problem, operators: tuple[str, ...] = PLAIN) -> Self:
        """``operators``: those that the family takes."""
        require(
            problem.operator in operators,
            f"{problem}: operator '{problem.operator}' is not {' or '.join(operators)}",
        )
        M, N, K = problem.dims
        transpose_B, scaled = problem.operator != "matmul", problem.operator == "scaledlinear"
        return cls(M, N, K, problem.input, problem.accumulator, problem.output, transpose_B, scaled)

    @property
    def dynamic(self) -> tuple[str, ...]:
        """The symbolic dimensions."""
        return () if isinstance(self.M, int) else ("M",)

    @property
    def A_shape(self) -> tuple[Any, int]:
        return self.M, self.K

    @property
    def B_shape(self) -> tuple[int, int]:
        return self.B_tile(self.N, self.K)

    @property
    def C_shape(self) -> tuple[Any, int]:
        return self.M, self.N

    def B_tile(self, block_N: int, block_K: int) -> tuple[int, int]:
        """Shape of a tile of B in memory order."""
        return (block_N, block_K) if self.transpose_B else (block_K, block_N)
