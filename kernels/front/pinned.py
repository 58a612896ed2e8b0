"""The winners that were measured on a GPU, as `tilebench publish` wrote them."""

import os
from functools import cache
from pathlib import Path
from typing import Any, Final

from harness.errors import UsageError
from harness.judge.facts.problem import Problem
from harness.records.base import Regime
from harness.records.published import Publication, Winner, read
from kernels.front.choice import Choice, library

FOLDER: Final = Path(__file__).parent.parent / "pinned"
REGIME: Final = "TILEBENCH_REGIME"


def pinned(problem: Problem, key: str | None) -> Choice | None:
    """The winner of a problem on a GPU, the library where it is known to be best; None where nothing was measured.

    Raises UsageError where the environment names an unknown regime.
    """
    regime = os.environ.get(REGIME) or Regime.PAIRED
    if regime not in [*Regime]:
        raise UsageError(f"{REGIME} is '{regime}'; set it to {' or '.join(Regime)}, or unset it")
    said, name = publication(key), problem.shape_key
    found = said.winners.get(name) or said.library.get(name)
    if regime == Regime.SUSTAINED:
        found = said.sustained.get(name, found)
    return _chosen(found) if isinstance(found, Winner) else None if found is None else library(found)


@cache
def publication(key: str | None) -> Publication:
    path = FOLDER / f"{key}.json"
    return read(path) if path.is_file() else Publication(key or "")


def _chosen(winner: Winner) -> Choice:
    why = f"{winner.iteration} on {winner.device}, {winner.ratio:.4f} [{winner.low:.4f}, {winner.high:.4f}]"
    levers = {name: tupled(value) for name, value in winner.levers.items()}
    return Choice(f"{why} of the library", winner.family, levers, winner.pass_configs, winner.compile_flags)


def tupled(value: Any) -> Any:
    """JSON has no tuples, and no lever is a list."""
    return tuple(map(tupled, value)) if isinstance(value, list) else value
