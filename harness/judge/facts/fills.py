"""How inputs are filled: what is drawn, what it needs, and a complaint where that cannot be had.

A draw is a flat tensor. Of a whole fill each draw has the input's shape and stands for itself; of any other fill each
part is as random as another, so an input may be any window of a longer draw.
"""

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final

from harness.judge.facts.dtypes import FLOATS, LARGEST, NARROW_FLOATS
from harness.judge.facts.sizes import Shape, Size, Values, evaluated

FACTOR_SPREAD: Final = 1 / 6  # wide enough to show a factor in the wrong place, narrow enough for the output's scale


@dataclass(frozen=True, slots=True)
class Fill:
    """Base of all fills. ``takes`` are its dtypes."""

    whole: ClassVar[bool] = False
    takes: ClassVar[frozenset[str]] = frozenset(LARGEST)

    @property
    def sizes(self) -> tuple[str, ...]:
        """The expressions that it depends on."""
        return tuple(size for each in fields(self) if isinstance(size := getattr(self, each.name), str))

    def unmet(self, shape: Shape, dtype: str, values: Values) -> str | None:
        """Why this cannot fill a tensor; None if it can."""
        return None

    def draw(self, shape: Shape, dtype: str, values: Values, dice: Any) -> Any:
        """Fresh values as a tensor of this shape, on the device of the torch.Generator ``dice``."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Normal(Fill):
    """Normal around 0 with standard deviation ``scale``."""

    scale: Size = 1.0
    takes: ClassVar[frozenset[str]] = FLOATS

    def draw(self, shape: Shape, dtype: str, values: Values, dice: Any) -> Any:
        drawn = _empty(shape, "float32" if dtype in NARROW_FLOATS else dtype, dice)
        return _as(drawn.normal_(0.0, evaluated(self.scale, values), generator=dice), dtype)


@dataclass(frozen=True, slots=True)
class Positive(Fill):
    """Uniform within FACTOR_SPREAD of ``scale``, as for what scales others."""

    scale: Size = 1.0
    takes: ClassVar[frozenset[str]] = FLOATS

    def draw(self, shape: Shape, dtype: str, values: Values, dice: Any) -> Any:
        scale = evaluated(self.scale, values)
        drawn = _empty(shape, "float32" if dtype in NARROW_FLOATS else dtype, dice)
        return _as(drawn.uniform_((1 - FACTOR_SPREAD) * scale, (1 + FACTOR_SPREAD) * scale, generator=dice), dtype)


@dataclass(frozen=True, slots=True)
class Signed(Positive):
    """The same, each with a random sign: a factor that may turn what it scales."""

    def draw(self, shape: Shape, dtype: str, values: Values, dice: Any) -> Any:
        drawn = Positive.draw(self, shape, dtype, values, dice)
        return _as(drawn.float() * (1 - 2 * _integers(0, 2, shape, "int8", dice)), dtype)


@dataclass(frozen=True, slots=True)
class Integers(Fill):
    """Uniform integers from ``low`` up to, not including, ``high``."""

    high: Size
    low: Size = 0
    takes: ClassVar[frozenset[str]] = FLOATS - NARROW_FLOATS | LARGEST.keys()

    def unmet(self, shape: Shape, dtype: str, values: Values) -> str | None:
        low, high = (evaluated(each, values) for each in (self.low, self.high))
        if low >= high:
            return f"no integer lies from {low} up to, not including, {high}"
        return _too_large(high - 1, dtype)

    def draw(self, shape: Shape, dtype: str, values: Values, dice: Any) -> Any:
        return _integers(evaluated(self.low, values), evaluated(self.high, values), shape, dtype, dice)


@dataclass(frozen=True, slots=True)
class Lengths(Fill):
    """Integers from ``least`` to ``most``, both included; two or more hold each of the two at least once.

    Each of n comes from another nth of the range, in random order. So a draw has about as much work as another.
    """

    most: Size
    least: Size = 1
    whole: ClassVar[bool] = True

    def unmet(self, shape: Shape, dtype: str, values: Values) -> str | None:
        least, most = (evaluated(each, values) for each in (self.least, self.most))
        return f"no length lies from {least} to {most}" if least > most else _too_large(most, dtype)

    def draw(self, shape: Shape, dtype: str, values: Values, dice: Any) -> Any:
        least, most = (evaluated(each, values) for each in (self.least, self.most))
        count = math.prod(shape)
        parts = _shuffled(count, dice)
        within = _empty((count,), "float64", dice).uniform_(generator=dice)
        drawn = _as(least + (parts + within) / count * (most + 1 - least), dtype)
        drawn[parts == 0] = least
        drawn[parts == count - 1] = most
        return drawn.view(shape)


@dataclass(frozen=True, slots=True)
class Offsets(Fill):
    """Sorted offsets along the last axis: the first is 0, the last ``total``, and none is over ``most`` from the next.

    ``ends`` leaves the 0 out, so each is the end of a group. Of three groups or more one is empty where that can be.
    """

    total: Size
    most: Size = math.inf
    ends: bool = False
    whole: ClassVar[bool] = True

    def unmet(self, shape: Shape, dtype: str, values: Values) -> str | None:
        total, most, groups = *(evaluated(each, values) for each in (self.total, self.most)), self._groups(shape)
        if groups < 1 or total > groups * most:
            return f"{groups} groups of at most {most} do not sum to {total}"
        return _too_large(total, dtype)

    def draw(self, shape: Shape, dtype: str, values: Values, dice: Any) -> Any:
        import torch

        drawn = _empty(shape, dtype, dice)
        for row in drawn.view(-1, shape[-1]):
            sizes = self._sizes(self._groups(shape), values, dice)
            row[-len(sizes) :] = torch.tensor(sizes).cumsum(0)
            if not self.ends:
                row[0] = 0
        return drawn

    def _groups(self, shape: Shape) -> int:
        return shape[-1] - (not self.ends)

    def _sizes(self, groups: int, values: Values, dice: Any) -> list[int]:
        """Uneven sizes of groups: from random cuts, and what exceeds ``most`` goes to others."""
        total, most = evaluated(self.total, values), evaluated(self.most, values)
        cuts = sorted(_integers(0, total + 1, (groups - 1,), "int64", dice).tolist())
        sizes = [int(min(end - start, most)) for start, end in zip([0, *cuts], [*cuts, total], strict=True)]
        order = _shuffled(groups, dice).tolist()
        if groups > 2 and total <= (groups - 1) * most:
            sizes[order.pop()] = 0
        for group in order:
            sizes[group] += int(min(total - sum(sizes), most - sizes[group]))
        return sizes


@dataclass(frozen=True, slots=True)
class Permutation(Fill):
    """A permutation of 0 to n - 1 in each row of the last axis, of length n."""

    whole: ClassVar[bool] = True

    def unmet(self, shape: Shape, dtype: str, values: Values) -> str | None:
        return _too_large(shape[-1] - 1, dtype)

    def draw(self, shape: Shape, dtype: str, values: Values, dice: Any) -> Any:
        return _as(_empty(shape, "float64", dice).uniform_(generator=dice).argsort(dim=-1), dtype)


@dataclass(frozen=True, slots=True)
class PageTable(Fill):
    """Numbers of pages below ``pages``; no page is named twice."""

    pages: Size
    whole: ClassVar[bool] = True

    def unmet(self, shape: Shape, dtype: str, values: Values) -> str | None:
        pages = evaluated(self.pages, values)
        if math.prod(shape) > pages:
            return f"{math.prod(shape)} entries name more than {pages} pages"
        return _too_large(pages - 1, dtype)

    def draw(self, shape: Shape, dtype: str, values: Values, dice: Any) -> Any:
        return _as(_shuffled(evaluated(self.pages, values), dice)[: math.prod(shape)].view(shape), dtype)


@dataclass(frozen=True, slots=True)
class Mask(Fill):
    """True with probability ``density``."""

    density: Size = 0.5
    takes: ClassVar[frozenset[str]] = frozenset({"bool", *LARGEST})

    def unmet(self, shape: Shape, dtype: str, values: Values) -> str | None:
        density = evaluated(self.density, values)
        return None if 0 <= density <= 1 else f"density {density} is not from 0 to 1"

    def draw(self, shape: Shape, dtype: str, values: Values, dice: Any) -> Any:
        return _as(_empty(shape, "float32", dice).uniform_(generator=dice) < evaluated(self.density, values), dtype)


@dataclass(frozen=True, slots=True)
class Words(Fill):
    """Packed words: every bit is random."""

    def draw(self, shape: Shape, dtype: str, values: Values, dice: Any) -> Any:
        empty = _empty(shape, dtype, dice).view(-1)
        bytes_of = (empty.nbytes,)
        return _integers(0, 256, bytes_of, "uint8", dice).view(empty.dtype).view(shape)


def _too_large(value: float, dtype: str) -> str | None:
    return f"{dtype} cannot hold {value}" if value > LARGEST.get(dtype, math.inf) else None


def _empty(shape: Shape, dtype: str, dice: Any) -> Any:
    import torch

    return torch.empty(shape, dtype=getattr(torch, dtype), device=dice.device)


def _integers(low: int, high: int, shape: Shape, dtype: str, dice: Any) -> Any:
    import torch

    return torch.randint(low, high, shape, dtype=getattr(torch, dtype), device=dice.device, generator=dice)


def _shuffled(count: int, dice: Any) -> Any:
    import torch

    return torch.randperm(count, device=dice.device, generator=dice)


def _as(drawn: Any, dtype: str) -> Any:
    import torch

    return drawn.to(getattr(torch, dtype))
