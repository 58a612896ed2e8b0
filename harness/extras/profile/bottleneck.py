"""What bounds a kernel: a table of thresholds, a table of rules, and the margin to another answer.

The rules are those of the speed-of-light page of Nsight Compute, with two differences for Hopper. WGMMA shows in the
cycles of the tensor pipe, not in the instructions of the ``hmma`` pipe. Warp-specialised kernels have few active warps
by design, so occupancy decides nothing.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Final

import msgspec

from harness.boards.power import PowerBound
from harness.extras.profile.figures import STALLS, Figures
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem
from harness.records.profiles import Bound, Confidence


class Bottleneck(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What bounds a kernel. ``bound`` is None if too little was counted; ``limiter`` is the busiest unit."""

    bound: Bound | None
    confidence: Confidence
    limiter: str | None
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Threshold:
    value: float
    means: str
    source: str


_SPEED_OF_LIGHT: Final = "Nsight Compute, rule SpeedOfLight"
_TWO_REPORTS: Final = "own: the two H200 reports at 4096³ have 94% and 95%, in a launch that fills the GPU for 200 µs"

BUSY: Final = Threshold(60, "% of its peak: from here on a unit can be the limit", _SPEED_OF_LIGHT)
NEAR: Final = Threshold(10, "points: units closer than this limit together", _SPEED_OF_LIGHT)
SATURATED: Final = Threshold(80, "% of its peak: only less work makes the kernel faster", _SPEED_OF_LIGHT)
FULL: Final = Threshold(
    75, "% of the launch in which an average SM holds a warp; the rest is start, end or idle SMs", _TWO_REPORTS
)
FIRM: Final = Threshold(8, "points: the answer stands if any figure moves by this much: high confidence", "own margin")
FAIR: Final = Threshold(3, "points: the same for medium confidence", "own margin")
THRESHOLDS: Final = {"BUSY": BUSY, "NEAR": NEAR, "SATURATED": SATURATED, "FULL": FULL, "FIRM": FIRM, "FAIR": FAIR}


@dataclass(frozen=True, slots=True)
class Load:
    """The input of the rules, in percent: the busiest compute unit, the busiest memory level, active SMs."""

    compute: float
    memory: float
    active: float


@dataclass(frozen=True, slots=True)
class BoundRule:
    bound: Bound
    when: str
    holds: Callable[[Load], bool]


# The first rule that holds decides.
RULES: Final = (
    BoundRule(
        Bound.LAUNCH,
        "compute < BUSY, memory < BUSY, active < FULL",
        lambda load: max(load.compute, load.memory) < BUSY.value and load.active < FULL.value,
    ),
    BoundRule(Bound.LATENCY, "compute < BUSY, memory < BUSY", lambda load: max(load.compute, load.memory) < BUSY.value),
    BoundRule(
        Bound.MIXED, "compute and memory closer than NEAR", lambda load: abs(load.compute - load.memory) < NEAR.value
    ),
    BoundRule(Bound.COMPUTE, "compute > memory", lambda load: load.compute > load.memory),
    BoundRule(Bound.MEMORY, "memory > compute", lambda load: load.memory > load.compute),
)

# Figure -> the unit's name. Of equal units the first is named.
_OTHER: Final = "another unit of the SM"
COMPUTE_UNITS: Final = {
    "tensor_pct": "tensor pipe",
    "fma_pct": "FMA pipe",
    "alu_pct": "ALU pipe",
    "issue_pct": "issue slots",
    "sm_pct": _OTHER,
}
MEMORY_LEVELS: Final = {"dram_pct": "DRAM", "l2_pct": "L2", "shared_pct": "shared memory"}


def find_bottleneck(figures: Figures, problem: Problem, gpu: Gpu, others_us: float = 0.0) -> Bottleneck:
    """What bounds a kernel; ``others_us`` is the time of the iteration's other kernels."""
    compute, memory = _shares(figures, COMPUTE_UNITS), _shares(figures, MEMORY_LEVELS)
    evidence = tuple(_evidence(figures, problem, gpu, others_us))
    if not (compute and memory):
        missing = [title for title, shares in (("compute units", compute), ("memory levels", memory)) if not shares]
        complaint = f"no share of {' and of '.join(missing)} was counted, so no rule applies"
        return Bottleneck(None, Confidence.LOW, None, (complaint, *evidence))
    active = figures.active_pct
    load = Load(max(compute.values()), max(memory.values()), 100.0 if active is None else active)
    bound = decide(load)
    units = compute | memory
    limiter = None if bound in (Bound.LATENCY, Bound.LAUNCH) else max(units, key=units.__getitem__)
    complete = active is not None and all(figures.get(name) is not None for name in (*MEMORY_LEVELS, "tensor_pct"))
    return Bottleneck(bound, _confidence(load, bound) if complete else Confidence.LOW, limiter, evidence)


def at_the_limit(found: Bottleneck, power: PowerBound) -> Bottleneck:
    """The power limit as the bound, with what the counters say of the units below it."""
    units = f"with clocks to spare: {found.bound}-bound{f' by {found.limiter}' if found.limiter else ''}"
    evidence = (power.sentence, power.clock, *((units,) if found.bound else ()), *found.evidence)
    return Bottleneck(Bound.POWER, Confidence.HIGH, None, evidence)


def decide(load: Load) -> Bound:
    """The first rule that holds; compute if two units are exactly equal."""
    return next((rule.bound for rule in RULES if rule.holds(load)), Bound.COMPUTE)


def _confidence(load: Load, bound: Bound) -> Confidence:
    """How far each figure may move before the answer changes."""

    def stands(points: float) -> bool:
        steps = ((each.name, step) for each in fields(load) for step in (-points, points))
        moved = (replace(load, **{name: getattr(load, name) + step}) for name, step in steps)
        return all(decide(each) is bound for each in moved)

    if stands(FIRM.value):
        return Confidence.HIGH
    return Confidence.MEDIUM if stands(FAIR.value) else Confidence.LOW


def _shares(figures: Figures, units: dict[str, str]) -> dict[str, float]:
    """The units that were counted, by name, in percent of their peaks."""
    return {name: value for figure, name in units.items() if (value := figures.get(figure)) is not None}


def _evidence(figures: Figures, problem: Problem, gpu: Gpu, others_us: float) -> Iterator[str]:
    if others_us:
        whole_us = figures.duration_us + others_us
        yield f"{figures.kernel} is {100 * figures.duration_us / whole_us:.0f}% of {whole_us:.4g} µs in several kernels"
    for title, units in (("compute", COMPUTE_UNITS), ("memory", MEMORY_LEVELS)):
        if found := _shares(figures, units):
            parts = ", ".join(f"{name} {share:.0f}%" for name, share in found.items() if name != _OTHER)
            yield f"{title}, of peak: {parts or f'SM {found[_OTHER]:.0f}%'}"
    hit = figures.get("l2_hit_pct")
    if hit is not None and figures.dram_bytes is not None:
        yield f"L2 hit rate {hit:.0f}%, {figures.dram_bytes / 1e6:.4g} MB from and to DRAM"
    if figures.active_pct is not None and figures.active_pct < FULL.value:
        yield f"an average SM holds a warp in {figures.active_pct:.0f}% of {figures.duration_us:.4g} µs"
    yield from _roofline(figures, problem, gpu)
    if figures.stalls:
        parts = ", ".join(f"{share:.0f}% {STALLS[reason]} ({reason})" for reason, share in figures.stalls[:2])
        yield f"warps wait {parts}{'; a waiting producer counts too' if figures.is_warp_specialised else ''}"
    yield from _occupancy(figures)


def _roofline(figures: Figures, problem: Problem, gpu: Gpu) -> Iterator[str]:
    """The launch under the roofline: its flops per DRAM byte against the ridge."""
    peak_tflops = gpu.peak_tflops(problem)
    if not figures.dram_bytes or peak_tflops is None or gpu.bandwidth_gbs is None:
        return
    intensity, ridge = problem.flops / figures.dram_bytes, peak_tflops * 1e3 / gpu.bandwidth_gbs
    if intensity > ridge:
        side, reached, roof, unit = "right of the ridge, where compute", problem.flops / 1e6, peak_tflops, "TFLOPS"
    else:
        side, reached, roof, unit = "left of it, where DRAM", figures.dram_bytes / 1e3, gpu.bandwidth_gbs, "GB/s"
    reached /= figures.duration_us
    yield (
        f"{intensity:.0f} flop per DRAM byte against a ridge of {ridge:.0f}: {side} is the roof; "
        f"{reached:.4g} {unit}, {100 * reached / roof:.0f}% of that roof"
    )


def _occupancy(figures: Figures) -> Iterator[str]:
    warps = figures.get("warps_pct")
    if warps is None:
        return
    said = f"{warps:.0f}% of the warps an SM can hold"
    if figures.is_warp_specialised:
        yield f"{said}: normal for TMA and WGMMA, and no sign of a bound"
        return
    by = {"blocks_by_registers": "registers", "blocks_by_shared": "shared memory", "blocks_by_warps": "warps"}
    limits = _shares(figures, by)
    least = min(limits, key=limits.__getitem__) if limits else None
    yield said + (f"; {limits[least]:.0f} blocks fit an SM, by {least}" if least else "")
