"""A run of limited time: what counts most comes first, and nothing begins that would not end in time."""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Final, TypeVar

from harness.catalog.tree import Iteration

MINUTE_S: Final = 60.0
TIME_OVER: Final = "the time is over"  # why something was skipped
LEAST_SHARE_S: Final = 120.0  # of one problem on one of many GPUs: its start takes up to a minute from a cold disk
T = TypeVar("T")
Key = tuple[str, str, str]  # problem, model and name


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a run is over, in seconds of ``clock``."""

    at_s: float = math.inf
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def within(cls, minutes: float | None, clock: Callable[[], float] = time.monotonic) -> "Deadline":
        """The end of so many minutes from now; None is no end."""
        return cls() if minutes is None else cls(clock() + MINUTE_S * minutes, clock)

    @property
    def is_set(self) -> bool:
        return self.at_s < math.inf

    def left_s(self, besides_s: float = 0.0) -> float | None:
        """Seconds until so many before the end, at least 0; None where there is no end."""
        return max(0.0, self.at_s - self.clock() - besides_s) if self.is_set else None

    def has_room(self, seconds: float) -> bool:
        return self.clock() + seconds <= self.at_s

    def share_s(self, problems: int, at_once: int) -> float | None:
        """Seconds for the next of so many problems, of which some are measured at once; None where there is no end."""
        left_s = self.left_s()
        return None if left_s is None else min(left_s, max(left_s * at_once / problems, LEAST_SHARE_S))

    def while_room(
        self, items: Iterable[T], usual_s: float, costs: Callable[[T], bool] = lambda item: True
    ) -> Iterator[T]:
        """The items, as long as the next would end in time.

        The caller takes for an item what passes until it asks for the next. The median of that is the estimate;
        before one is known, ``usual_s``. An item that does not cost anything is always given, and not counted.
        """
        took_s: list[float] = []
        for each in items:
            if not costs(each):
                yield each
                continue
            if not self.has_room(median(took_s or [usual_s])):
                return
            began = self.clock()
            yield each
            took_s.append(self.clock() - began)


ENDLESS: Final = Deadline()


def by_worth(iterations: Iterable[Iteration], ranked: Iterable[Key]) -> list[Iteration]:
    """The leaders and what is not ranked, then the next two of each problem, the next four, and so on.

    ``ranked`` are the rows of all boards, each problem's best first. A problem's rows of one such part stay together,
    since a change of problem starts another referee. Otherwise the order stays.
    """
    places: dict[str, dict[Key, int]] = defaultdict(dict)
    for key in ranked:
        places[key[0]].setdefault(key, len(places[key[0]]) + 1)
    return sorted(iterations, key=lambda each: places[each.shape_key].get(each.key, 1).bit_length())
