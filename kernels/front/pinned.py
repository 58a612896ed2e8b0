"""The winners that were measured on a GPU, as `tilebench publish` wrote them."""

from functools import cache
from pathlib import Path
from typing import Any, Final

from harness.judge.facts.problem import Problem
from harness.records.published import Publication, Winner, read
from kernels.front.choice import Choice, library

FOLDER: Final = Path(__file__).parent.parent / "pinned"


def pinned(problem: Problem, key: str | None) -> Choice | None:
    """The winner of a problem on a GPU, the library where it is known to be best; None where nothing was measured."""
    said = publication(key)
    winner = said.winners.get(problem.shape_key)
    if winner is not None:
        return _chosen(winner)
    reason = said.library.get(problem.shape_key)
    return None if reason is None else library(reason)


@cache
def publication(key: str | None) -> Publication:
    path = FOLDER / f"{key}.json"
    return read(path) if path.is_file() else Publication(key or "")


def _chosen(winner: Winner) -> Choice:
    why = f"{winner.iteration} on {winner.device}, {winner.ratio:.4f} [{winner.low:.4f}, {winner.high:.4f}]"
    levers = {name: _tupled(value) for name, value in winner.levers.items()}
    return Choice(f"{why} of the library", winner.family, levers, winner.pass_configs, winner.compile_flags)


def _tupled(value: Any) -> Any:
    """JSON has no tuples, and no lever is a list."""
    return tuple(map(_tupled, value)) if isinstance(value, list) else value
