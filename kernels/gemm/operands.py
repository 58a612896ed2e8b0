"""A GEMM problem as the families see it: shapes and dtypes of A, B and C, and what an SM can hold."""

from dataclasses import dataclass
from typing import Any

from harness.problem import DTYPE_BYTES, Problem

SHARED_BYTES_MAX = 227 * 1024  # what one block may have on sm_90, static and dynamic together
SHARED_BYTES_RESERVED = 1024  # mbarriers and the alignment of swizzled tiles
NUM_SMS = 132  # H100 SXM and H200


def require(condition: bool, message: str) -> None:
    """Raise ValueError with one line when a family's arguments cannot work."""
    if not condition:
        raise ValueError(message)


def ceildiv(a: int, b: int) -> int:
    return -(-a // b)


@dataclass(frozen=True)
class Operands:
    """C[M, N] = A[M, K] · B, where B is [K, N] (matmul) or [N, K] (linear, ``transpose_B``)."""

    M: int
    N: int
    K: int
    input: str
    accumulator: str
    output: str
    transpose_B: bool

    @classmethod
    def of(cls, problem: Problem) -> "Operands":
        require(
            problem.operator in ("matmul", "linear"),
            f"{problem}: operator '{problem.operator}' is not matmul or linear",
        )
        M, N, K = problem.dims
        transpose_B = problem.operator == "linear"
        require(
            transpose_B or DTYPE_BYTES[problem.input] == 2,
            f"{problem}: WGMMA takes {problem.input} operands K-major only; use operator linear",
        )
        require(DTYPE_BYTES[problem.input] <= 2, f"{problem}: {problem.input} inputs are not supported")
        return cls(M, N, K, problem.input, problem.accumulator, problem.output, transpose_B)

    @property
    def input_bytes(self) -> int:
        return DTYPE_BYTES[self.input]

    @property
    def output_bytes(self) -> int:
        return DTYPE_BYTES[self.output]

    @property
    def A_shape(self) -> tuple[int, int]:
        return self.M, self.K

    @property
    def B_shape(self) -> tuple[int, int]:
        return self.B_tile(self.N, self.K)

    @property
    def C_shape(self) -> tuple[int, int]:
        return self.M, self.N

    def B_tile(self, block_N: int, block_K: int) -> tuple[int, int]:
        """Shape of a tile of B in memory order."""
        return (block_N, block_K) if self.transpose_B else (block_K, block_N)

    def B_region(self, B: Any, n0: Any, k0: Any, block_N: int, block_K: int) -> Any:
        """The tile of the tensor B that starts at column n0 of C and at step k0 of K."""
        if self.transpose_B:
            return B[n0 : n0 + block_N, k0 : k0 + block_K]
        return B[k0 : k0 + block_K, n0 : n0 + block_N]

    def require_tma(self) -> None:
        """TMA needs row pitches in multiples of 16 bytes."""
        pitches = {
            "A": self.K * self.input_bytes,
            "B": self.B_shape[1] * self.input_bytes,
            "C": self.N * self.output_bytes,
        }
        for name, pitch in pitches.items():
            require(pitch % 16 == 0, f"TMA needs a row pitch in multiples of 16 bytes; that of {name} is {pitch}")


def require_shared(shared_bytes: int) -> None:
    limit = SHARED_BYTES_MAX - SHARED_BYTES_RESERVED
    require(shared_bytes <= limit, f"the tiles take {shared_bytes} bytes of shared memory; a block has {limit}")
