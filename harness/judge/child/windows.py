"""The inputs of a placement, each by itself: fresh values in every set, at the cost of a copy."""

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

import torch

from harness.judge.child import trials
from harness.judge.child.arena import LARGE_BYTES
from harness.judge.facts.device_rules import CPU_RULES, GPU_RULES
from harness.judge.facts.dtypes import NARROW_FLOATS
from harness.judge.facts.fills import Normal
from harness.judge.facts.problem import Problem

STEP: Final = 64  # elements between possible windows: keeps the copies aligned
# Windows of a second pool: so many that two launches of a placement seldom add the same two parts.
ADDEND_STEPS: Final = 1 << 20
LEAST_ADDEND_STEPS: Final = 1 << 10  # of a small input, with a second pool 16 times as long
ADDEND_STEPS_ON_CPU: Final = 1 << 15  # of one element each, since a host need not align what it adds
WINDOWS_A_SET: Final = 8
MIN_WINDOWS: Final = 32
MAX_SPARE: Final = 200  # beyond these, pairs are rare enough to meet again


class PlacedInput(ABC):
    """One input in every set of a placement, and the values that the last refresh gave it there."""

    def __init__(
        self,
        problem: Problem,
        position: int,
        sets: Sequence[Sequence[torch.Tensor]],
        generator: torch.Generator,
        dice: random.Random,
    ) -> None:
        self._problem, self._position = problem, position
        self._shape, dtype = problem.tensors[position]
        self._dtype: torch.dtype = getattr(torch, dtype)
        self._size = math.prod(self._shape)
        self._targets = [self._held(tensors[position]) for tensors in sets]
        self._values: list[torch.Tensor] = []  # by set; there may be more
        self._set_up(generator, dice)

    def refresh(self, dice: random.Random, shared: torch.Generator) -> None:
        """Other values in every set. What all sets share is drawn from ``shared``."""
        self._draw(dice, shared)
        order = dice.sample(range(len(self._targets)), len(self._targets))  # no launch can wait for its inputs by it
        self._fill([self._targets[index] for index in order], order, dice)

    def original(self, index: int) -> torch.Tensor:
        """The values that a set was filled with, from memory that no side can reach."""
        return self._values[index].view(self._dtype).view(self._shape)

    @abstractmethod
    def _set_up(self, generator: torch.Generator, dice: random.Random) -> None:
        """Draw what refreshes choose from."""

    @abstractmethod
    def _draw(self, dice: random.Random, shared: torch.Generator) -> None:
        """Choose ``_values`` anew."""

    def _fill(self, targets: list[torch.Tensor], order: list[int], dice: random.Random) -> None:
        torch._foreach_copy_(targets, [self._values[index] for index in order])

    def _held(self, tensor: torch.Tensor) -> torch.Tensor:
        return words(tensor)


class SharedDraw(PlacedInput):
    """An input of which each draw stands for itself, such as lengths: all sets of a refresh have one draw.

    It often decides how much work a launch has, so both sides' blocks can have the same.
    """

    def _set_up(self, generator: torch.Generator, dice: random.Random) -> None:
        """A refresh draws it."""

    def _draw(self, dice: random.Random, shared: torch.Generator) -> None:
        drawn = self._held(trials.random_pool(self._problem, self._position, self._size, shared))
        self._values = [drawn] * len(self._targets)


class Windowed(PlacedInput):
    """An input of which each set has a window of a private pool of random values.

    Choosing other windows changes every element of every set for the price of a device copy; drawing new values would
    take longer than the block. The pool is at least a quarter longer than the input. On a GPU it is larger than the L2,
    so that no copy of it stays there. There are several times as many windows as sets, chosen for each input by itself,
    so two inputs rarely meet again in one set.
    """

    def _set_up(self, generator: torch.Generator, dice: random.Random) -> None:
        width, whole = self._dtype.itemsize, self._problem.fills[self._position].whole
        rules = CPU_RULES if generator.device.type == "cpu" else GPU_RULES
        sets = len(self._targets)
        windows = max(MIN_WINDOWS, min(WINDOWS_A_SET * sets, 2 * sets + MAX_SPARE))
        least = rules.least_pool_bytes // width if self._size * width >= LARGE_BYTES else 0
        step = self._size if whole else STEP
        steps = windows if whole else max(self._size // 4 // STEP, 4 * windows, (least - self._size) // STEP)
        pool = self._pool(self._size + steps * step, generator)
        starts = dice.sample(range(steps + 1), windows)
        self._values = [self._held(pool[start * step : start * step + self._size]) for start in starts]

    def _pool(self, elements: int, generator: torch.Generator) -> torch.Tensor:
        return trials.random_pool(self._problem, self._position, elements, generator)

    def _draw(self, dice: random.Random, shared: torch.Generator) -> None:
        used = len(self._targets)
        rest = self._values[used:]  # those that the last refresh did not use
        dice.shuffle(rest)
        self._values[:] = rest + self._values[:used]


class Summed(Windowed):
    """An input of normal values: each set has the sum of two windows, of two pools.

    Windows of one pool share most of their values, and what a kernel has computed of a part of one would do for
    another. Of such sums no part comes again.
    """

    def _set_up(self, generator: torch.Generator, dice: random.Random) -> None:
        on_cpu = generator.device.type == "cpu"
        most = min(ADDEND_STEPS, max(LEAST_ADDEND_STEPS, 16 * self._size // STEP))
        self._step, self._steps = (1, ADDEND_STEPS_ON_CPU) if on_cpu else (STEP, most)
        self._second = self._pool(self._size + self._steps * self._step, generator)
        self._addends: list[torch.Tensor] = []  # by set
        super()._set_up(generator, dice)

    def original(self, index: int) -> torch.Tensor:
        return (self._values[index] + self._addends[index]).view(self._shape)

    def _pool(self, elements: int, generator: torch.Generator) -> torch.Tensor:
        """Values of which the sum of two is a draw of the input."""
        return super()._pool(elements, generator).mul_(math.sqrt(0.5))

    def _fill(self, targets: list[torch.Tensor], order: list[int], dice: random.Random) -> None:
        """Small ones of a GPU in few launches, others with less traffic; bit for bit the same."""
        starts = [self._step * dice.randint(0, self._steps) for _ in targets]
        self._addends = [self._second[start : start + self._size] for start in starts]
        given = [(self._values[index], self._addends[index]) for index in order]
        if targets[0].is_cuda and targets[0].nbytes < LARGE_BYTES:
            torch._foreach_copy_(targets, [first for first, _ in given])
            torch._foreach_add_(targets, [second for _, second in given])
            return
        for target, (first, second) in zip(targets, given, strict=True):
            torch.add(first, second, out=target)

    def _held(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.view(-1)


def placed(
    problem: Problem, sets: Sequence[Sequence[torch.Tensor]], generator: torch.Generator, dice: random.Random
) -> list[PlacedInput]:
    """The inputs of a problem in their order.

    Where each is of a whole fill, one launch could copy another's result. Then each set has a draw of its own.
    """
    all_whole = all(fill.whole for fill in problem.fills)

    def place(position: int) -> PlacedInput:
        shared = problem.fills[position].whole and not all_whole
        kind = SharedDraw if shared else Summed if _is_sum(problem, position) else Windowed
        return kind(problem, position, sets, generator, dice)

    return [place(position) for position in range(len(problem.inputs))]


def _is_sum(problem: Problem, position: int) -> bool:
    """Whether the sum of two draws of an input, each over the root of 2, is a draw of it that torch can compute."""
    return type(problem.fills[position]) is Normal and problem.tensors[position][1] not in NARROW_FLOATS


def words(tensor: torch.Tensor) -> torch.Tensor:
    """The same bytes as the widest integers that divide them: the copy kernels move 4 elements at a time."""
    flat = tensor.view(-1)
    size = flat.numel() * flat.element_size()
    return flat.view(
        next(dtype for dtype in (torch.int64, torch.int32, torch.int16, torch.uint8) if not size % dtype.itemsize)
    )
