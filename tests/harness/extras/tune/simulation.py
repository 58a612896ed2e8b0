"""A simulated field: blocks as on an H200, of candidates with known ratios."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.extras.tune.race import RUNGS, RaceField, Rung, race
from harness.judge.candidate import Settings
from harness.judge.statistics import estimate
from harness.records.results import BlockPair

# Relative standard deviations of the ratio between rounds, placements, processes: docs/explanation/measurement.md.
ROUNDS, PLACEMENTS, PROCESSES = 0.006, 0.001, 0.0007
SCREEN = 0.01  # of a candidate's screened time, against its ratio
START_ROUNDS = 90  # what starting, verifying and pacing a candidate costs, in rounds of two 5 ms blocks: 0.9 s
FULL = Settings(budget_s=3.0)
MOST_ROUNDS = 150  # 3 s of device time, of which copies take half


@dataclass
class Simulated:
    """Candidates by name, measured with the judge's statistics; ``rounds`` and ``starts`` count what that cost."""

    truth: dict[str, float]
    random: np.random.Generator
    noise: float = 1.0
    rounds: int = 0
    starts: int = 0
    rungs: Sequence[Rung] = field(default=RUNGS)

    def measure(self, rung: int, keys: Sequence[str]) -> Iterator[tuple[str, Sequence[BlockPair]]]:
        for key in keys:
            yield key, self.blocks(key, self.rungs[rung])

    def blocks(self, key: str, rung: Rung) -> list[BlockPair]:
        """One measurement: a new process, new placements; a full one until its interval is narrow."""
        self.starts += 1
        process = self._off(PROCESSES)
        made: list[BlockPair] = []
        placement = 0
        while True:
            off = self._off(PLACEMENTS)
            for _ in range(rung.rounds):
                ratio = self.truth[key] * process * off * self._off(ROUNDS)
                made.append(BlockPair(placement, 1.0, 1.0 / ratio))
            placement += 1
            if placement < rung.placements:
                continue
            if not rung.full or len(made) >= MOST_ROUNDS or estimate(made).half_width <= FULL.target_half_width:
                self.rounds += len(made)
                return made

    def race(self) -> RaceField:
        return race(list(self.truth), self.measure, self.rungs)

    def screened_race(self) -> RaceField:
        """With a screen before it, in which each candidate is off by so much of its own."""
        screened_ms = {key: self._off(SCREEN) / ratio for key, ratio in self.truth.items()}
        return race(list(self.truth), self.measure, self.rungs, screened_ms)

    @property
    def cost(self) -> float:
        """In rounds, starting included."""
        return self.rounds + START_ROUNDS * self.starts

    def _off(self, deviation: float) -> float:
        return float(np.exp(self.random.normal(0.0, deviation * self.noise)))


def field_of(size: int, random: np.random.Generator, close: int = 8, within: float = 0.02) -> dict[str, float]:
    """Candidates as in a GEMM's space: ``close`` of them ``within`` the best, the others far below."""
    best = 1.02
    truths = [best, *(best * (1 - random.uniform(0.0, within)) for _ in range(close - 1))]
    truths += [best * (1 - random.beta(1.5, 2.5) * 0.7 - 0.02) for _ in range(size - close)]
    order = random.permutation(size)
    return {f"candidate{place:03d}": truths[place] for place in order}


def cut_by_rank(simulated: Simulated, parts: Sequence[int] = (16, 1)) -> RaceField:
    """The same rungs, but each keeps a fixed part of the field by rank, which the race does not do."""
    field = RaceField(list(simulated.truth))
    for rung, part in enumerate(parts):
        for key, blocks in simulated.measure(rung, tuple(field.left)):
            field.add(key, blocks)
        field.left.sort(key=lambda key: -field.estimates[key].ratio)
        field.left = field.left[: max(1, len(field.left) // part)]
    return field


def figures(runs: int, close: int, within: float, noise: float, race: Callable[[Simulated], RaceField]) -> str:
    """One column of the table in docs/results/searches.md."""
    dropped, losses, cost, starts, rounds, left = 0, [], [], [], [], []
    for seed in range(runs):
        random = np.random.default_rng(seed)
        simulated = Simulated(field_of(100, random, close, within), random, noise)
        finish = race(simulated)
        best = max(simulated.truth, key=lambda key: simulated.truth[key])
        dropped += best not in finish.left
        losses.append(1 - simulated.truth[finish.left[0]] / simulated.truth[best])
        full = Simulated(simulated.truth, random, noise)
        for key in full.truth if seed < 4 else ():
            full.blocks(key, RUNGS[-1])
        if seed < 4:
            full_rounds, full_cost = full.rounds, full.cost
        cost.append(simulated.cost / full_cost)
        rounds.append(simulated.rounds / full_rounds)
        starts.append(simulated.starts)
        left.append(len(finish.left))
    return (
        f"dropped {dropped} of {runs}; within 0.2%: {sum(loss <= 0.002 for loss in losses)}; worst {max(losses):.2%}; "
        f"starts {np.mean(starts):.0f}; rounds {np.mean(rounds):.0%}; with starts {np.mean(cost):.0%}; "
        f"left {np.mean(left):.1f}"
    )


if __name__ == "__main__":  # python -m tests.harness.extras.tune.simulation 200
    count = int(sys.argv[1])
    lines = ("screened", Simulated.screened_race), ("by interval", Simulated.race), ("by rank", cut_by_rank)
    for name, line in lines:
        for close, within, noise in ((8, 0.02, 1.0), (8, 0.02, 4.0), (30, 0.01, 2.0)):
            print(name, close, within, noise, figures(count, close, within, noise, line), flush=True)
