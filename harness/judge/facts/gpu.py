"""One GPU key's facts, and what follows from them for a problem: the roofline and the timers."""

from typing import Final

import msgspec

from harness.judge.facts.problem import Problem

CPU: Final = "cpu"


class Gpu(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of the data file; rates in TFLOPS, bandwidth in GB/s, L2 in MiB; absent where nothing is claimed."""

    arch: str
    l2_mib: int
    key: str = ""
    name: str | None = None
    sms: int | None = None
    bf16_tflops: float | None = None
    fp16_tflops: float | None = None
    fp8_tflops: float | None = None
    fp32_tflops: float | None = None
    bandwidth_gbs: float | None = None

    @property
    def is_cpu(self) -> bool:
        return self.key == CPU

    def peak_tflops(self, problem: Problem) -> float | None:
        rates = {
            "bfloat16": self.bf16_tflops,
            "float16": self.fp16_tflops,
            "float8_e4m3fn": self.fp8_tflops,
            "float32": self.fp32_tflops,
        }
        return rates.get(problem.input)  # of integers no rate is claimed

    def floor_ms(self, problem: Problem) -> float:
        """The roofline: no launch can be faster than its flops at peak rate or its bytes at peak bandwidth.

        Of float32 that is the CUDA cores' rate, or a third of TF32's, which is half of bfloat16's: three TF32 products
        are as exact (Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores", 2022).
        """
        peak_tflops = self.peak_tflops(problem)
        if peak_tflops and problem.input == "float32":
            peak_tflops = max(peak_tflops, (self.bf16_tflops or 0.0) / 6)
        compute_ms = problem.flops / (peak_tflops * 1e9) if peak_tflops else 0.0
        memory_ms = problem.bytes / (self.bandwidth_gbs * 1e6) if self.bandwidth_gbs else 0.0
        return max(compute_ms, memory_ms)

    def is_memory_bound(self, problem: Problem) -> bool:
        """Whether its bytes at peak bandwidth take longer than its flops at peak rate.

        Where a peak is not known: whether it has fewer flops than bytes.
        """
        peak_tflops = self.peak_tflops(problem)
        if not peak_tflops or not self.bandwidth_gbs:
            return problem.flops < problem.bytes
        return problem.bytes / (self.bandwidth_gbs * 1e9) > problem.flops / (peak_tflops * 1e12)

    @property
    def plain_timer(self) -> str:
        """The clock that needs no preparation; it times launches that no record holds."""
        return "host" if self.is_cpu else "events"

    @property
    def timer(self) -> str:
        """The clock of the blocks. It shows how launches wait for each other, and none of a contestant's code runs."""
        return self.plain_timer if self.is_cpu else "graph"
