"""The race: successive halving whose field is cut only where intervals are apart.

Each rung measures those that are left for about as many blocks as all rungs before it together, so that the time of a
rung hardly grows while the field shrinks (sequential halving: Karnin, Koren and Somekh, "Almost Optimal Exploration in
Multi-Armed Bandits", ICML 2013; with growing budgets: Jamieson and Talwalkar, "Non-stochastic Best Arm Identification
and Hyperparameter Optimization", AISTATS 2016). Halving by rank would drop a candidate that only looks slower; here it
goes when its interval lies below the leader's, as in a Hoeffding race (Maron and Moore, NIPS 1994), with the intervals
of the judge. What is left after the last rung ties.

Where a screen has timed the candidates before, those are raced first that are near its fastest, and then, wave by wave,
whoever could still lead: screen and race disagree by what they disagree on those raced so far, at the worst. Few start
on the last rung at once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.catalog.device_kind import GPU_KIND
from harness.judge.candidate import Settings
from harness.judge.statistics import Estimate, estimate
from harness.records.results import BlockPair

LEAST: Final = 8  # are raced in any case, of those that the screen has timed
FEW: Final = 16  # are measured in full at once: to thin them out would cost those left another start
MIN_LAUNCHES: Final = 10  # of a rung that only thins the field out; the last one has the contract's 50
Key = str


@dataclass(frozen=True, slots=True)
class Rung:
    """How much one candidate is measured on a rung; ``full``: like an iteration, until its interval is narrow."""

    placements: int
    rounds: int
    full: bool = False

    def settings(self, full: Settings) -> Settings:
        """The judge's settings: a rung that is not the last ends with its placements, however wide the interval."""
        if self.full:
            return full
        return Settings(
            budget_s=0.0,
            min_placements=self.placements,
            rounds_per_placement=self.rounds,
            min_launches=MIN_LAUNCHES,
            build_deadline_s=full.build_deadline_s,
            launch_deadline_s=full.launch_deadline_s,
            attempts=full.attempts,
        )


RUNGS: Final = (Rung(4, 3), Rung(8, 6, full=True))
EXHAUSTIVE: Final = RUNGS[-1:]  # every candidate like an iteration: what a race is compared with

# Measures candidates on a rung, one after another; None for one that failed.
Measure = Callable[[int, Sequence[Key]], Iterator[tuple[Key, Sequence[BlockPair] | None]]]


def joined(measurements: Iterable[Sequence[BlockPair]]) -> tuple[BlockPair, ...]:
    """The blocks of several measurements of one candidate, their placements kept apart."""
    blocks: list[BlockPair] = []
    for measured in measurements:
        after = max((block.placement for block in blocks), default=-1) + 1
        blocks += (BlockPair(after + each.placement, each.baseline_ms, each.contestant_ms) for each in measured)
    return tuple(blocks)


@dataclass(slots=True)
class Field:
    """Who is in the race, who is out, and what is known of each."""

    left: list[Key]
    blocks: dict[Key, Sequence[BlockPair]] = field(default_factory=dict)
    estimates: dict[Key, Estimate] = field(default_factory=dict)
    failed: list[Key] = field(default_factory=list)
    dropped: list[Key] = field(default_factory=list)
    spared: list[Key] = field(default_factory=list)  # too slow in the screen to be raced
    rung: int = 0

    @property
    def leader(self) -> Key | None:
        """The highest ratio of those that are left and measured."""
        measured = [key for key in self.left if key in self.estimates]
        return max(measured, key=lambda key: self.estimates[key].ratio, default=None)

    def add(self, key: Key, fresh: Sequence[BlockPair] | None) -> None:
        """Take in one candidate's blocks of a rung; its placements are new ones."""
        if fresh is None:
            self.failed.append(key)
            self.left.remove(key)
            self.estimates.pop(key, None)
            return
        self.blocks[key] = joined((self.blocks.get(key, ()), fresh))
        self.estimates[key] = estimate(self.blocks[key])

    def wave(self, screened_ms: Mapping[Key, float], near: float) -> list[Key]:
        """Who is to be raced next: not raced yet, and not so slow in the screen that it cannot lead; fastest first.

        A candidate of ratio r and screened time t has r·t = p, the same for all if the screen were exact. If p of one
        that was not raced lies above those of the raced by no more than these lie apart, and ``near`` besides, it can
        only lead if t is below that p / (the leader's r). How far they lie apart, LEAST tell; and as long as none has
        passed, the fastest in the screen are raced: it does not verify.
        """
        waiting = [key for key in self.left if key not in self.estimates]
        leader = self.leader
        raced = [key for key in self.estimates if key in screened_ms]
        if leader is not None and raced:
            products = [self.estimates[key].ratio * screened_ms[key] for key in raced]
            apart = max(products) / min(products)
            limit_ms = near * apart * max(products) / self.estimates[leader].ratio
        else:
            limit_ms = near * min((screened_ms[key] for key in waiting if key in screened_ms), default=0.0)
        waiting.sort(key=lambda key: screened_ms.get(key, 0.0))
        able = [key for key in waiting if screened_ms.get(key, 0.0) <= limit_ms]
        return able if len(raced) >= LEAST else waiting[: max(len(able), LEAST - len(raced))]

    def spare(self) -> None:
        """Those that no wave has raced are out."""
        self.spared = [key for key in self.left if key not in self.estimates]
        self.left = [key for key in self.left if key in self.estimates]

    def cut(self) -> None:
        """Drop those whose interval lies below the leader's."""
        leader = self.leader
        if leader is None:
            return
        low = self.estimates[leader].low
        self.dropped += [key for key in self.left if self.estimates[key].high < low]
        self.left = sorted(
            (key for key in self.left if self.estimates[key].high >= low), key=lambda key: -self.estimates[key].ratio
        )


def race(
    keys: Sequence[Key],
    measure: Measure,
    rungs: Sequence[Rung] = RUNGS,
    screened_ms: Mapping[Key, float] | None = None,
    near: float = GPU_KIND.screen_tolerance,
) -> Field:
    """Race until one leads or the rungs end; those left, best first, tie with the first.

    ``screened_ms``: ms of a launch in the screen, of those that ran there; the others are raced in any case.
    """
    entrants = Field(list(keys))
    wave = entrants.wave(screened_ms or {}, near)
    entrants.rung = len(rungs) - 1 if len(wave) <= FEW else 0
    while wave:
        for key, fresh in measure(entrants.rung, wave):
            entrants.add(key, fresh)
        wave = entrants.wave(screened_ms or {}, near)
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
