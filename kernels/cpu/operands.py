"""A matrix product in float32, as the CPU families take it."""

from dataclasses import dataclass
from typing import Self

from harness.iteration import Problem
from kernels.operands import PLAIN, Operands, require


@dataclass(frozen=True)
class CpuOperands(Operands):
    @classmethod
    def of(cls, problem: Problem, operators: tuple[str, ...] = PLAIN) -> Self:
        dtypes = (problem.input, problem.accumulator, problem.output)
        require(set(dtypes) == {"float32"}, f"dtypes {'/'.join(dtypes)} are not float32 throughout")
        return super().of(problem, operators)

    def require_whole(self, dimension: str, block: int) -> None:
        size = getattr(self, dimension)
        require(
            block > 0 and size % block == 0, f"block_{dimension}={block} does not divide {dimension}={size} into blocks"
        )
