"""The race: successive halving that drops a candidate only when its interval is apart from the leader's.

The first rung measures each candidate for a few rounds, and the last one the remaining ones as fully as the judge. So
the time of a rung hardly grows while the field shrinks (sequential halving: Karnin, Koren and Somekh, "Almost Optimal
Exploration in Multi-Armed Bandits", ICML 2013; with growing budgets: Jamieson and Talwalkar, "Non-stochastic Best Arm
Identification and Hyperparameter Optimization", AISTATS 2016). Halving by rank would drop a candidate that only looks
slower. Here a candidate leaves when its interval lies below the leader's, as in a Hoeffding race (Maron and Moore,
NIPS 1994), with the judge's intervals. Candidates that remain after the last rung tie.

After a screen, the race begins with the fastest candidates of the screen. Further waves take all candidates that could
still lead, given the largest disagreement between screen and race so far.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from harness.catalog.device_kind import GPU_KIND
from harness.judge.candidate import Settings
from harness.judge.statistics import Estimate, estimate
from harness.records.results import BlockPair

MIN_RACED: Final = 8  # candidates of the screen that are raced in any case
MAX_AT_ONCE: Final = 16  # so many start on the last rung: to drop some first would cost the others a second start
MIN_LAUNCHES: Final = 10  # of a rung that only drops candidates; the last rung has the contract's 50
Key = str


@dataclass(frozen=True, slots=True)
class Rung:
    """How long a rung measures a candidate; ``full`` measures until the interval is narrow, as for an iteration."""

    placements: int
    rounds: int
    full: bool = False

    def settings(self, full: Settings) -> Settings:
        """The judge's settings; a rung that is not full ends after its placements, however wide the interval is."""
        if self.full:
            return full
        return replace(
            full,
            budget_s=0.0,
            min_placements=self.placements,
            rounds_per_placement=self.rounds,
            min_launches=MIN_LAUNCHES,
            again=False,
        )


RUNGS: Final = (Rung(4, 3), Rung(8, 6, full=True))
EXHAUSTIVE: Final = RUNGS[-1:]  # measures every candidate like an iteration: the reference for the race

# Measures candidates on a rung, one after another; gives None for one that failed.
Measure = Callable[[int, Sequence[Key]], Iterator[tuple[Key, Sequence[BlockPair] | None]]]


def joined(measurements: Iterable[Sequence[BlockPair]]) -> tuple[BlockPair, ...]:
    """The blocks of several measurements of one candidate, with placements renumbered so that none coincide."""
    blocks: list[BlockPair] = []
    for measured in measurements:
        after = max((block.placement for block in blocks), default=-1) + 1
        blocks += (BlockPair(after + each.placement, each.baseline_ms, each.contestant_ms) for each in measured)
    return tuple(blocks)


@dataclass(slots=True)
class RaceField:
    """The candidates that are left, those that are out, and the blocks of each."""

    left: list[Key]
    blocks: dict[Key, Sequence[BlockPair]] = field(default_factory=dict)
    estimates: dict[Key, Estimate] = field(default_factory=dict)
    spared: list[Key] = field(default_factory=list)  # too slow in the screen to be raced
    rung: int = 0

    @property
    def leader(self) -> Key | None:
        """The candidate with the highest ratio of those left and measured."""
        measured = [key for key in self.left if key in self.estimates]
        return max(measured, key=lambda key: self.estimates[key].ratio, default=None)

    def add(self, key: Key, fresh: Sequence[BlockPair] | None) -> None:
        """Add one candidate's blocks of a rung; None drops it as failed."""
        if fresh is None:
            self.left.remove(key)
            self.estimates.pop(key, None)
            return
        self.blocks[key] = joined((self.blocks.get(key, ()), fresh))
        self.estimates[key] = estimate(self.blocks[key])

    def wave(self, screened_ms: Mapping[Key, float], tolerance: float) -> list[Key]:
        """The candidates to race next, fastest first: those not raced yet that could lead.

        With an exact screen, ratio times screened time would be one constant. Estimate the constant from the raced
        candidates: the largest product, times the largest quotient of two products, times ``tolerance``. A candidate
        can lead if that constant over its screened time exceeds the leader's ratio. MIN_RACED candidates are raced
        first, to show the disagreement. The screen does not verify: until one passes, the race goes on by speed alone.
        """
        waiting = [key for key in self.left if key not in self.estimates]
        leader = self.leader
        raced = [key for key in self.estimates if key in screened_ms]
        if leader is not None and raced:
            products = [self.estimates[key].ratio * screened_ms[key] for key in raced]
            apart = max(products) / min(products)
            limit_ms = tolerance * apart * max(products) / self.estimates[leader].ratio
        else:
            limit_ms = tolerance * min((screened_ms[key] for key in waiting if key in screened_ms), default=0.0)
        waiting.sort(key=lambda key: screened_ms.get(key, 0.0))
        able = [key for key in waiting if screened_ms.get(key, 0.0) <= limit_ms]
        return able if len(raced) >= MIN_RACED else waiting[: max(len(able), MIN_RACED - len(raced))]

    def spare(self) -> None:
        """Take the candidates out that no wave raced."""
        self.spared = [key for key in self.left if key not in self.estimates]
        self.left = [key for key in self.left if key in self.estimates]

    def cut(self) -> None:
        """Drop the candidates with an interval below the leader's; order the others by ratio."""
        leader = self.leader
        if leader is None:
            return
        low = self.estimates[leader].low
        kept = (key for key in self.left if self.estimates[key].high >= low)
        self.left = sorted(kept, key=lambda key: -self.estimates[key].ratio)


def race(
    keys: Sequence[Key],
    measure: Measure,
    rungs: Sequence[Rung] = RUNGS,
    screened_ms: Mapping[Key, float] | None = None,
    tolerance: float = GPU_KIND.screen_tolerance,
) -> RaceField:
    """Race until one candidate leads or the rungs end; those left, best first, tie with the first.

    ``screened_ms`` gives ms a launch in the screen; candidates without one are raced in any case.
    """
    entrants = RaceField(list(keys))
    wave = entrants.wave(screened_ms or {}, tolerance)
    entrants.rung = len(rungs) - 1 if len(wave) <= MAX_AT_ONCE else 0
    while wave:
        for key, fresh in measure(entrants.rung, wave):
            entrants.add(key, fresh)
        wave = entrants.wave(screened_ms or {}, tolerance)
    entrants.spare()
    entrants.cut()
    for number in range(entrants.rung + 1, len(rungs)):
        if len(entrants.left) <= 1:
            break
        entrants.rung = number
        for key, fresh in measure(number, tuple(entrants.left)):
            entrants.add(key, fresh)
        entrants.cut()
    return entrants
