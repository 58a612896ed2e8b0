"""A matrix product in float32 as the CPU families see it: its shapes, and the check that both kinds share."""

from dataclasses import dataclass

from harness.problem import Problem


def require(condition: bool, message: str) -> None:
    """Raise ValueError with one line when a family's arguments cannot work."""
    if not condition:
        raise ValueError(message)


@dataclass(frozen=True)
class Operands:
    """C[M, N] = A[M, K] · B, where B is [K, N] (matmul) or [N, K] (linear, ``transpose_B``)."""

    M: int
    N: int
    K: int
    transpose_B: bool

    @classmethod
    def of(cls, problem: Problem) -> "Operands":
        require(problem.operator in ("matmul", "linear"), f"operator '{problem.operator}' is not matmul or linear")
        dtypes = (problem.input, problem.accumulator, problem.output)
        require(set(dtypes) == {"float32"}, f"dtypes {'/'.join(dtypes)} are not float32 throughout")
        M, N, K = problem.dims
        return cls(M, N, K, problem.operator == "linear")

    @property
    def A_shape(self) -> tuple[int, int]:
        return self.M, self.K

    @property
    def B_shape(self) -> tuple[int, int]:
        return (self.N, self.K) if self.transpose_B else (self.K, self.N)

    @property
    def C_shape(self) -> tuple[int, int]:
        return self.M, self.N

    def require_whole(self, dimension: str, block: int) -> None:
        size = getattr(self, dimension)
        require(
            block > 0 and size % block == 0, f"block_{dimension}={block} does not divide {dimension}={size} into blocks"
        )
