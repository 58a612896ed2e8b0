"""The pace of a GPU: what a copy and a product reach there when a run begins, beside its siblings.

``python -m harness.extras.fleet.pace KEY`` measures it in a process of its own, which leaves the GPU free.
"""

import sys
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Final, TypeVar

import msgspec

from harness.catalog import gpus
from harness.machine.nvml import Device, Monitor

SLOWER: Final = 0.05
HEAT: Final = ("software thermal", "hardware thermal")
SECONDS: Final = 1.0  # for each of the two; the second half counts
BATCH: Final = 4  # launches
COPY_BYTES: Final = 1 << 30
SIDE: Final = 8192
ON_CPU: Final = 16  # so many times smaller
Name = TypeVar("Name")


class ChipPace(msgspec.Struct, frozen=True):
    """A copy in GB/s read and written, a bf16 product in TFLOPS, and what NVML said meanwhile."""

    copy_gbs: float
    tflops: float
    throttle: tuple[str, ...] = ()
    temperature_c: float = 0.0


def slow(paces: Mapping[Name, ChipPace]) -> dict[Name, str]:
    """Find those that heat slows down, or that are slower than the median of the others, each with the reason."""
    found = {name: reason for name, pace in paces.items() if (reason := _hot(pace))}
    for name, pace in paces.items():
        others = [each for other, each in paces.items() if other != name]
        for figure, what in (("tflops", "product reaches {:.4g} TFLOPS"), ("copy_gbs", "copy reaches {:.4g} GB/s")):
            own, usual = getattr(pace, figure), median([getattr(each, figure) for each in others] or [0.0])
            if own < (1 - SLOWER) * usual:
                found.setdefault(name, f"its {what.format(own)}, and {usual:.4g} is the median of the others")
    return found


def _hot(pace: ChipPace) -> str:
    reasons = [each for each in pace.throttle if each in HEAT]
    return f"heat slows it down ({', '.join(reasons)} at {pace.temperature_c:.0f} °C)" if reasons else ""


def measure(device: Device | None) -> ChipPace:
    """The pace of this process's GPU, or of the CPU without one."""
    import torch

    where, smaller = ("cpu", ON_CPU) if device is None else ("cuda", 1)
    source = torch.ones(COPY_BYTES // smaller, dtype=torch.uint8, device=where)
    target = torch.empty_like(source)
    side = SIDE // smaller
    a, b = (torch.randn(side, side, device=where).bfloat16() for _ in range(2))
    product = torch.empty_like(a)
    wait = torch.cuda.synchronize if device is not None else lambda: None
    with Monitor(device) as monitor:
        copy_s = _seconds(lambda: target.copy_(source), wait)
        product_s = _seconds(lambda: torch.matmul(a, b, out=product), wait)
        chip = monitor.telemetry()
    return ChipPace(
        copy_gbs=2 * source.numel() / copy_s / 1e9,
        tflops=2 * side**3 / product_s / 1e12,
        throttle=chip.throttle if chip else (),
        temperature_c=chip.temperature_c if chip else 0.0,
    )


def _seconds(launch: Callable[[], object], wait: Callable[[], None]) -> float:
    """Seconds for one launch, back to back."""
    times: list[float] = []
    until = time.monotonic() + SECONDS
    while not times or time.monotonic() < until:
        began = time.perf_counter()
        for _ in range(BATCH):
            launch()
        wait()
        times.append((time.perf_counter() - began) / BATCH)
    return median(times[len(times) // 2 :])


def main() -> None:
    _, device = gpus.resolve(sys.argv[1])
    sys.stdout.buffer.write(msgspec.json.encode(measure(device)))


if __name__ == "__main__":
    main()
