"""The statistics of a paired measurement: the median of ratios and its interval."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from harness.records.results import BlockPair

RESAMPLES: Final = 2000
CONFIDENCE: Final = 0.95
# Two processes that run the same kernel on the same buffers differ by a constant that no number of rounds averages
# out. This is its relative 95% half-width, from A/A measurements on an H200 (docs/explanation/measurement.md).
PROCESS_HALF_WIDTH: Final = 0.0015


@dataclass(frozen=True, slots=True)
class Estimate:
    """A ratio (baseline's time over the contestant's) and its 95% interval."""

    ratio: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Relative to the ratio."""
        return (self.high - self.low) / (2 * self.ratio)


def estimate(blocks: Sequence[BlockPair], seed: int = 0) -> Estimate:
    """The median ratio over rounds and its two-level bootstrap interval.

    A resample draws placements with replacement, and rounds within each, because variation between placements does not
    average out over rounds. A percentile interval from few placements is too narrow. So it is widened about the ratio
    to Student's t with n-1 degrees of freedom, and by sqrt(n/(n-1)). Source: Hesterberg, "What Teachers Should Know
    About the Bootstrap", 2015, section 5.3. PROCESS_HALF_WIDTH is added in quadrature. Raises ValueError for fewer than
    two placements.
    """
    import numpy as np  # a quarter of the start of a command that measures nothing

    groups: dict[int, list[float]] = {}
    for block in blocks:
        groups.setdefault(block.placement, []).append(block.baseline_ms / block.contestant_ms)
    ratios = [np.asarray(group) for group in groups.values()]
    n = len(ratios)
    if n < 2:
        raise ValueError(f"an interval over placements needs at least two, not {n}")
    center = float(np.median(np.concatenate(ratios)))
    random = np.random.default_rng(seed)
    rounds = max(len(group) for group in ratios)
    # One array of all groups, the short ones filled up by resampling, makes a draw two index arrays.
    table = np.stack([group if len(group) == rounds else random.choice(group, rounds) for group in ratios])
    chosen = random.integers(0, n, (RESAMPLES, n, 1))
    within = random.integers(0, rounds, (RESAMPLES, n, rounds))
    medians = np.median(table[chosen, within].reshape(RESAMPLES, -1), axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(medians, (tail, 1 - tail))
    widen = student_t(n - 1) / 1.959964 * math.sqrt(n / (n - 1))
    process = PROCESS_HALF_WIDTH * center
    return Estimate(
        ratio=center,
        low=center - math.hypot((center - float(low)) * widen, process),
        high=center + math.hypot((float(high) - center) * widen, process),
    )


def estimate_of_means(ratios: Sequence[float]) -> Estimate:
    """The geometric mean of at least two ratios, and its 95% interval by Student's t.

    For phases of a second: each ratio is a mean over hundreds of launches already. PROCESS_HALF_WIDTH is added in
    quadrature. Raises ValueError for fewer than two.
    """
    center, half = interval([math.log(ratio) for ratio in ratios])
    half = math.hypot(half, PROCESS_HALF_WIDTH)
    return Estimate(math.exp(center), math.exp(center - half), math.exp(center + half))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean of at least two values, and the half-width of its 95% interval by Student's t. Raises ValueError."""
    if len(values) < 2:
        raise ValueError(f"an interval needs at least two values, not {len(values)}")
    half = student_t(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return statistics.fmean(values), half


def student_t(degrees: int, confidence: float = CONFIDENCE) -> float:
    """Student's t that bounds a two-sided interval (Cornish-Fisher expansion; exact for 1 and 2 degrees of freedom).

    Abramowitz and Stegun, 26.7.5.
    """
    if degrees == 1:
        return math.tan(math.pi / 2 * confidence)
    if degrees == 2:
        return confidence * math.sqrt(2 / (1 - confidence**2))
    z = statistics.NormalDist().inv_cdf((1 + confidence) / 2)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / degrees**power for power, term in enumerate(terms, start=1))
