"""What bounds a kernel: one table of thresholds, one of rules, and how far the figures are from another answer.

The rules are those of the speed-of-light page of Nsight Compute, with what is different on Hopper: WGMMA shows in the
cycles of the tensor pipe, not in the instructions of the ``hmma`` pipe; few active warps are normal for a kernel that
is warp-specialised, so that occupancy decides nothing here.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Final

import msgspec

from harness.extras.profile.figures import STALLS, Figures
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem
from harness.records.profiles import Bound, Confidence


class Verdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What bounds the kernel, None where too little was counted; ``limiter`` is the unit that is busiest."""

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
_TWO_REPORTS: Final = "own: the two H200 reports at 4096³ have 94% and 95%, a launch that fills the GPU for 200 µs"

BUSY: Final = Threshold(60, "% of its peak, from which on a unit can be what limits", _SPEED_OF_LIGHT)
NEAR: Final = Threshold(10, "points: units closer than this limit together", _SPEED_OF_LIGHT)
SATURATED: Final = Threshold(80, "% of its peak: only less work makes it faster", _SPEED_OF_LIGHT)
FULL: Final = Threshold(
    75, "% of the launch in which an average SM holds a warp; less is start, end or idle SMs", _TWO_REPORTS
)
FIRM: Final = Threshold(8, "points: no figure moved by so much changes the answer: high confidence", "own: a margin")
FAIR: Final = Threshold(3, "points: the same, for medium confidence", "own: a margin")
THRESHOLDS: Final = {"BUSY": BUSY, "NEAR": NEAR, "SATURATED": SATURATED, "FULL": FULL, "FIRM": FIRM, "FAIR": FAIR}


@dataclass(frozen=True, slots=True)
class Load:
    """What the rules look at, in percent: the busiest compute unit, the busiest memory level, active SMs."""

    compute: float
    memory: float
    active: float


@dataclass(frozen=True, slots=True)
class Rule:
    bound: Bound
    when: str
    holds: Callable[[Load], bool]


# The first rule that holds decides.
RULES: Final = (
    Rule(
        Bound.LAUNCH,
        "compute < BUSY, memory < BUSY, active < FULL",
        lambda load: max(load.compute, load.memory) < BUSY.value and load.active < FULL.value,
    ),
    Rule(
        Bound.LATENCY,
        "compute < BUSY, memory < BUSY",
        lambda load: max(load.compute, load.memory) < BUSY.value,
    ),
    Rule(
        Bound.MIXED,
        "compute and memory closer than NEAR",
        lambda load: abs(load.compute - load.memory) < NEAR.value,
    ),
    Rule(Bound.COMPUTE, "compute > memory", lambda load: load.compute > load.memory),
    Rule(Bound.MEMORY, "memory > compute", lambda load: load.memory > load.compute),
)

# Figure -> the unit's name in words. The first of equals is named.
COMPUTE_UNITS: Final = {
    "tensor_pct": "tensor pipe",
    "fma_pct": "FMA pipe",
    "alu_pct": "ALU pipe",
    "issue_pct": "issue slots",
    "sm_pct": "another unit of the SM",
}
MEMORY_LEVELS: Final = {"dram_pct": "DRAM", "l2_pct": "L2", "shared_pct": "shared memory"}


def judge(figures: Figures, problem: Problem, gpu: Gpu, others_us: float = 0.0) -> Verdict:
    """What bounds a kernel; ``others_us`` is the time of the iteration's other kernels."""
    compute, memory = _busiest(figures, COMPUTE_UNITS), _busiest(figures, MEMORY_LEVELS)
    evidence = [*_shares(figures), *_roofline(figures, problem, gpu), *_waits(figures), *_residents(figures)]
    if others_us:
        whole = figures.duration_us + others_us
        share = 100 * figures.duration_us / whole
        evidence.insert(0, f"{figures.kernel} is {share:.0f}% of {whole:.4g} µs in several kernels")
    if compute is None or memory is None:
        missing = " and ".join(
            name for name, found in (("of compute units", compute), ("of memory levels", memory)) if found is None
        )
        return Verdict(None, Confidence.LOW, None, (f"no share {missing} was counted, so no rule applies", *evidence))
    active = figures.active_pct
    load = Load(compute[1], memory[1], 100.0 if active is None else active)
    bound = decide(load)
    limiter = None if bound in (Bound.LATENCY, Bound.LAUNCH) else max(compute, memory, key=lambda pair: pair[1])[0]
    complete = active is not None and all(figures.get(name) is not None for name in (*MEMORY_LEVELS, "tensor_pct"))
    return Verdict(bound, _confidence(load, bound) if complete else Confidence.LOW, limiter, tuple(evidence))


def decide(load: Load) -> Bound:
    """The first rule that holds; compute where two units are equal to the last digit."""
    return next((rule.bound for rule in RULES if rule.holds(load)), Bound.COMPUTE)


def _confidence(load: Load, bound: Bound) -> Confidence:
    """By how far any one figure may move before the answer is another."""

    def stands(points: float) -> bool:
        moved = (
            replace(load, **{each.name: getattr(load, each.name) + step})
            for each in fields(load)
            for step in (-points, points)
        )
        return all(decide(each) is bound for each in moved)

    if stands(FIRM.value):
        return Confidence.HIGH
    return Confidence.MEDIUM if stands(FAIR.value) else Confidence.LOW


def _busiest(figures: Figures, units: dict[str, str]) -> tuple[str, float] | None:
    """The busiest of some units, by name."""
    found = [(name, value) for figure, name in units.items() if (value := figures.get(figure)) is not None]
    return max(found, key=lambda pair: pair[1]) if found else None


# The evidence, in sentences


def _shares(figures: Figures) -> list[str]:
    said = []
    for title, units in (("compute", COMPUTE_UNITS), ("memory", MEMORY_LEVELS)):
        found = [(name, each) for figure, name in units.items() if (each := figures.get(figure)) is not None]
        if found:
            parts = ", ".join(f"{name} {each:.0f}%" for name, each in found if name != COMPUTE_UNITS["sm_pct"])
            said.append(f"{title}, of peak: {parts or f'SM {found[0][1]:.0f}%'}")
    hit = figures.get("l2_hit_pct")
    if hit is not None and figures.dram_bytes is not None:
        said.append(f"L2 hit rate {hit:.0f}%, {figures.dram_bytes / 1e6:.4g} MB from and to DRAM")
    if figures.active_pct is not None and figures.active_pct < FULL.value:
        said.append(f"an average SM holds a warp in {figures.active_pct:.0f}% of {figures.duration_us:.4g} µs")
    return said


def _roofline(figures: Figures, problem: Problem, gpu: Gpu) -> list[str]:
    """Where the launch stands under the roofline: flops over DRAM bytes, against the ridge."""
    peak_tflops = gpu.peak_tflops(problem)
    if not figures.dram_bytes or peak_tflops is None or gpu.bandwidth_gbs is None:
        return []
    intensity = problem.flops / figures.dram_bytes
    ridge = peak_tflops * 1e3 / gpu.bandwidth_gbs
    side = (
        "right of the ridge, where compute is the roof" if intensity > ridge else "left of it, where DRAM is the roof"
    )
    reached = problem.flops / (figures.duration_us * 1e6)
    roof = min(peak_tflops, intensity * gpu.bandwidth_gbs / 1e3)
    return [
        f"{intensity:.0f} flop per DRAM byte against a ridge of {ridge:.0f}: {side}; "
        f"{reached:.4g} TFLOPS, {100 * reached / roof:.0f}% of that roof"
    ]


def _waits(figures: Figures) -> list[str]:
    if not figures.stalls:
        return []
    parts = ", ".join(f"{share:.0f}% {STALLS[reason]} ({reason})" for reason, share in figures.stalls[:2])
    remark = "; a producer's waiting counts as well" if warp_specialised(figures) else ""
    return [f"warps wait {parts}{remark}"]


def _residents(figures: Figures) -> list[str]:
    warps = figures.get("warps_pct")
    if warps is None:
        return []
    if warp_specialised(figures):
        return [f"{warps:.0f}% of the warps an SM can hold: normal for TMA and WGMMA, and no sign of a bound"]
    limits = {
        name: each
        for figure, name in (
            ("blocks_by_registers", "registers"),
            ("blocks_by_shared", "shared memory"),
            ("blocks_by_warps", "warps"),
        )
        if (each := figures.get(figure)) is not None
    }
    least = min(limits, key=lambda name: limits[name]) if limits else None
    by = f"; {limits[least]:.0f} blocks fit an SM, by {least}" if least else ""
    return [f"{warps:.0f}% of the warps an SM can hold{by}"]


def warp_specialised(figures: Figures) -> bool:
    """TMA feeds WGMMA: few warps are enough to fill the tensor pipe."""
    return bool(figures.get("wgmma_pct")) and bool(figures.get("tma_pct"))
