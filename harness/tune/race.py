"""The race: successive halving whose field is cut only where intervals are apart.

Each rung measures those that are left for about as many blocks as all rungs before it together, so that the time of a
rung hardly grows while the field shrinks (sequential halving: Karnin, Koren and Somekh, "Almost Optimal Exploration in
Multi-Armed Bandits", ICML 2013; with growing budgets: Jamieson and Talwalkar, "Non-stochastic Best Arm Identification
and Hyperparameter Optimization", AISTATS 2016). Halving by rank would drop a candidate that only looks slower; here it
goes when its interval lies below the leader's, as in a Hoeffding race (Maron and Moore, NIPS 1994), with the intervals
of the judge. What is left after the last rung ties.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.candidate import Settings
from harness.judge.statistics import Estimate, estimate
from harness.records import Block

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


RUNGS: Final = (Rung(4, 3), Rung(4, 6), Rung(8, 6, full=True))
EXHAUSTIVE: Final = RUNGS[-1:]  # every candidate like an iteration: what a race is compared with

# Measures candidates on a rung, one after another; None for one that failed.
Measure = Callable[[int, Sequence[Key]], Iterator[tuple[Key, Sequence[Block] | None]]]


@dataclass(slots=True)
class Field:
    """Who is in the race, who is out, and what is known of each."""

    left: list[Key]
    blocks: dict[Key, list[Block]] = field(default_factory=dict)
    estimates: dict[Key, Estimate] = field(default_factory=dict)
    failed: list[Key] = field(default_factory=list)
    dropped: list[Key] = field(default_factory=list)
    rung: int = 0

    @property
    def leader(self) -> Key | None:
        """The highest ratio of those that are left and measured."""
        measured = [key for key in self.left if key in self.estimates]
        return max(measured, key=lambda key: self.estimates[key].ratio, default=None)

    def add(self, key: Key, fresh: Sequence[Block] | None) -> None:
        """Take in one candidate's blocks of a rung; its placements are new ones."""
        if fresh is None:
            self.failed.append(key)
            self.left.remove(key)
            self.estimates.pop(key, None)
            return
        held = self.blocks.setdefault(key, [])
        after = max((block.placement for block in held), default=-1) + 1
        held += (Block(after + each.placement, each.baseline_ms, each.contestant_ms) for each in fresh)
        self.estimates[key] = estimate(held)

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


def race(keys: Sequence[Key], measure: Measure, rungs: Sequence[Rung] = RUNGS) -> Field:
    """Race until one leads or the rungs end; those left, best first, tie with the first."""
    entrants = Field(list(keys))
    for number in range(len(rungs)):
        entrants.rung = number
        for key, fresh in measure(number, tuple(entrants.left)):
            entrants.add(key, fresh)
        entrants.cut()
        if len(entrants.left) <= 1:
            break
    return entrants
