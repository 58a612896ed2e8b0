"""Which ladder a free GPU takes next: the longest, but what a chip has begun stays with that chip."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from harness.catalog.tree import Iteration
from harness.judge.facts.problem import Problem
from harness.records.base import Environment
from harness.records.results import Record
from harness.runs.run import Plan, reusable

Environments = Mapping[str, Callable[[str], Environment]]  # by chip


@dataclass(frozen=True, slots=True)
class Ladder:
    """One problem's iterations of all models. ``begun`` is how many of them each chip need not measure again.

    An errand has no iterations: its command line decides what it does for the problem. ``records`` are expected then.
    """

    problem: Problem
    iterations: tuple[Iteration, ...] = ()
    begun: Mapping[str, int] = field(default_factory=dict)
    records: int = 0

    @property
    def shape_key(self) -> str:
        return self.problem.shape_key

    @property
    def home(self) -> str | None:
        """The chip that has measured most of it; None if none has."""
        return max(self.begun, key=lambda chip: self.begun[chip], default=None)

    def left(self, chip: str) -> int:
        """How many iterations the chip would measure, or records of an errand."""
        return self.records or len(self.iterations) - self.begun.get(chip, 0)

    def length(self, chip: str) -> tuple[int, float]:
        """The longer is the greater."""
        return self.left(chip), self.problem.flops


def ladders(plan: Plan, environments: Environments, *, further: bool = False) -> tuple[list[Ladder], list[Record]]:
    """The ladders that need a GPU, and what needs none: the records of ladders that one chip has completed.

    With ``further`` these need their GPU too.
    """
    waiting: list[Ladder] = []
    done: list[Record] = []
    for _, group in groupby(plan.iterations, key=lambda each: each.shape_key):
        iterations = tuple(group)
        begun: dict[str, int] = {}
        for chip in _chips(plan, iterations, environments):
            known = (reusable(plan, each, environments[chip]) for each in iterations)
            found = [record for record in known if record is not None]
            begun |= {chip: len(found)} if found else {}
            if len(found) == len(iterations) and not further:
                done += found
                break
        else:
            waiting.append(Ladder(iterations[0].problem, iterations, begun))
    return waiting, done


def _chips(plan: Plan, iterations: Iterable[Iteration], environments: Environments) -> list[str]:
    """The chips of the fleet that the ladder's records name."""
    paths = {plan.tree.records(*each.ladder) for each in iterations}
    content = b"".join(path.read_bytes() for path in paths if path.is_file())
    return [chip for chip in environments if f'"{chip}"'.encode() in content]


def choose(waiting: Iterable[Ladder], chip: str, present: Iterable[str]) -> Ladder | None:
    """The ladder for a free chip; ``present`` are all chips of the fleet.

    Another chip's ladder is taken only where that chip has more to do than this ladder costs from its beginning.
    """
    listed, chips = list(waiting), set(present)
    own = [each for each in listed if each.home == chip or each.home not in chips]
    if own:
        return max(own, key=lambda each: (each.home == chip, each.length(chip)))
    backlog: dict[str | None, int] = {}
    for each in listed:
        backlog[each.home] = backlog.get(each.home, 0) + each.left(each.home or "")
    spare = [each for each in listed if each.left(chip) < backlog[each.home]]
    return max(spare, key=lambda each: each.length(chip), default=None)
