"""The contents of a placement: fresh inputs in every set, NaN everywhere else, at the cost of a copy."""

import math
import random
from dataclasses import dataclass
from typing import Final

import torch

from harness.judge import trials
from harness.judge.arena import Arena, Set
from harness.problem import Problem

STEP: Final = 64  # elements between possible windows: keeps the copies aligned
SAMPLES: Final = 1024
SAMPLED_SETS: Final = 4


class Contents:
    """Fills the sets of one placement.

    For each input there is a private pool of random values, a quarter longer than the input; a set's input is a window
    of it. Drawing windows anew changes every element of every set for the price of a device copy, where drawing the
    values themselves would take longer than the block that they are for.
    """

    def __init__(
        self,
        problem: Problem,
        arena: Arena,
        placement: tuple[Set, ...],
        generator: torch.Generator,
        dice: random.Random,
    ) -> None:
        self.placement = placement
        self.sets = arena.sets(problem, placement)
        self._dice = dice
        self._generator = generator
        self._whole = arena.tensor(0, (arena.size,), "uint8")
        self._windows: list[list[torch.Tensor]] = []
        self._targets: list[list[torch.Tensor]] = []
        for position, shape in enumerate(problem.inputs):
            size = math.prod(shape)
            steps = max(size // 4 // STEP, 4 * len(self.sets))
            pool = trials.random_pool(problem, size + steps * STEP, generator)
            starts = dice.sample(range(steps + 1), len(self.sets))
            self._windows.append([_words(pool[start * STEP : start * STEP + size]) for start in starts])
            self._targets.append([_words(tensors[position].view(-1)) for tensors in self.sets])

    def refresh(self) -> None:
        """New inputs in every set; outputs, and all that lies between the tensors, become NaN."""
        self._whole.fill_(0xFF)  # NaN in every float dtype
        for windows, targets in zip(self._windows, self._targets, strict=True):
            turn = self._dice.randrange(1, len(windows))  # no set keeps its window
            windows[:] = windows[turn:] + windows[:turn]
            torch._foreach_copy_(targets, windows)

    def fill_exact(self) -> None:
        """Small integers instead, in every set."""
        for *inputs, _ in self.sets:
            for tensor in inputs:
                trials.fill_exact(tensor, self._generator)

    def keep_inputs(self, index: int) -> list[torch.Tensor]:
        """Private copies of one set's inputs."""
        return [tensor.clone() for tensor in self.sets[index][:-1]]

    def look(self, launches: int, checked: int | None, inputs: list[torch.Tensor]) -> "Look":
        """Copies of what a block left: a sample of some outputs and, of the set to be checked, all of it."""
        sampled = self._dice.sample(range(1, launches + 1), min(SAMPLED_SETS, launches))
        samples = []
        for index in sampled:
            flat = self.sets[index][-1].view(-1)
            stride = max(1, flat.numel() // SAMPLES)
            samples.append(flat[self._dice.randrange(stride) :: stride])
        sample = torch.cat(samples)
        if checked is None:
            return Look(sample, sample, [], [])
        *left, output = (tensor.clone() for tensor in self.sets[checked])
        return Look(sample, output, inputs, left)


@dataclass(frozen=True, slots=True)
class Look:
    """Copies of what a block left behind. ``inputs`` are as they were before it, ``left`` as they were after."""

    sample: torch.Tensor
    output: torch.Tensor
    inputs: list[torch.Tensor]
    left: list[torch.Tensor]

    @property
    def written(self) -> bool:
        """Whether the sample holds numbers only."""
        return not bool(self.sample.isnan().any())

    @property
    def inputs_held(self) -> bool:
        """Whether the inputs are what they were, bit for bit."""
        return all(
            torch.equal(_words(before.view(-1)), _words(after.view(-1)))
            for before, after in zip(self.inputs, self.left, strict=True)
        )


def _words(flat: torch.Tensor) -> torch.Tensor:
    """The same bytes as the widest integers that divide them: the copy kernels move 4 elements at a time."""
    size = flat.numel() * flat.element_size()
    return flat.view(
        next(dtype for dtype in (torch.int64, torch.int32, torch.int16, torch.uint8) if not size % dtype.itemsize)
    )
