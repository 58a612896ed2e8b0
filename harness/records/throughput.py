"""The throughput that a person reads: GB/s where memory bounds a problem on a GPU, else TFLOPS."""

from typing import Final, NamedTuple

from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem

TFLOPS: Final = "TFLOPS"
GFLOPS: Final = "GFLOPS"


class Throughput(NamedTuple):
    figure: float
    unit: str

    @property
    def legible(self) -> "Throughput":
        """The same in GFLOPS where TFLOPS would be less than 1."""
        small = self.unit == TFLOPS and 0 < self.figure < 1
        return Throughput(1e3 * self.figure, GFLOPS) if small else self

    def __str__(self) -> str:
        figure, unit = self.legible
        return f"{figure:.4g} {unit}"


def throughput(problem: Problem, gpu: Gpu, time_ms: float) -> Throughput:
    """The throughput of a launch that takes ``time_ms``, 0 without a time."""
    if gpu.is_memory_bound(problem):
        return Throughput(bandwidth_gbs(problem, time_ms), "GB/s")
    return Throughput(problem.flops / (time_ms * 1e9) if time_ms > 0 else 0.0, TFLOPS)


def bandwidth_gbs(problem: Problem, time_ms: float) -> float:
    """The problem's bytes, each input once and the output once, over the time of a launch; 0 without a time."""
    return problem.bytes / (time_ms * 1e6) if time_ms > 0 else 0.0
