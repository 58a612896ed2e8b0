"""A simulated field: blocks as an H200 gives them, from candidates whose true ratio is known."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.candidate import Settings
from harness.judge.statistics import estimate
from harness.records import Block
from harness.tune.race import RUNGS, Field, Rung, race

# Relative standard deviations, of the ratio: what docs/measurement.md found between rounds, placements and processes.
ROUNDS, PLACEMENTS, PROCESSES = 0.006, 0.001, 0.0007
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

    def measure(self, rung: int, keys: Sequence[str]) -> Iterator[tuple[str, Sequence[Block]]]:
        for key in keys:
            yield key, self.blocks(key, self.rungs[rung])

    def blocks(self, key: str, rung: Rung) -> list[Block]:
        """One measurement: a new process, new placements; a full one until its interval is narrow."""
        self.starts += 1
        process = self._off(PROCESSES)
        made: list[Block] = []
        placement = 0
        while True:
            off = self._off(PLACEMENTS)
            for _ in range(rung.rounds):
                ratio = self.truth[key] * process * off * self._off(ROUNDS)
                made.append(Block(placement, 1.0, 1.0 / ratio))
            placement += 1
            if placement < rung.placements:
                continue
            if not rung.full or len(made) >= MOST_ROUNDS or estimate(made).half_width <= FULL.target_half_width:
                self.rounds += len(made)
                return made

    def race(self) -> Field:
        return race(list(self.truth), self.measure, self.rungs)

    @property
    def cost(self) -> float:
        """In rounds, starting included."""
        return self.rounds + START_ROUNDS * self.starts

    def _off(self, deviation: float) -> float:
        return float(np.exp(self.random.normal(0.0, deviation * self.noise)))


def field_of(size: int, random: np.random.Generator) -> dict[str, float]:
    """Candidates as a GEMM's space holds them: a few within 2% of the best, most far below."""
    close = max(2, size // 12)
    best = 1.02
    truths = [best, *(best * (1 - random.uniform(0.0, 0.02)) for _ in range(close - 1))]
    truths += [best * (1 - random.beta(1.5, 2.5) * 0.7 - 0.02) for _ in range(size - close)]
    order = random.permutation(size)
    return {f"candidate{place:03d}": truths[place] for place in order}
