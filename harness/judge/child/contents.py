"""The contents of a placement: fresh inputs in every set, NaN everywhere else, at the cost of a copy."""

import math
import random
from dataclasses import dataclass
from typing import Final

import torch

from harness.judge.child import trials
from harness.judge.child.arena import LARGE_BYTES, Arena, Set
from harness.judge.facts.problem import DTYPE_BYTES, Problem

STEP: Final = 64  # elements between possible windows: keeps the copies aligned
SKETCHED_SETS: Final = 4  # of a block, the lead-in's among them
WINDOWS_A_SET: Final = 8
LEAST_WINDOWS: Final = 32
LEAST_POOL_BYTES: Final = {True: 0, False: 256 << 20}  # by "is a CPU"; several times what an L2 holds
PROBES: Final = 4  # elements of every launch's output: who skips one leaves all of it NaN
MOST_SPARE: Final = 200  # beyond these, pairs are rare enough to meet again


class Contents:
    """Fills the sets of one placement.

    For each input there is a private pool of random values, a quarter longer than the input, and on a GPU than its L2,
    so that nobody who keeps a copy has it there; a set's input is a window of it. Choosing other windows changes
    every element of every set for the price of a device copy, where drawing the values themselves would take longer
    than the block that they are for. There are several times as many windows
    as sets, chosen for each input by itself: that all inputs of a set meet again in one placement is rare.
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
        self._problem = problem
        self._windows: list[list[torch.Tensor]] = []  # of each input, those of the sets first
        self._targets: list[list[torch.Tensor]] = []
        sets = len(self.sets)
        windows = max(LEAST_WINDOWS, min(WINDOWS_A_SET * sets, 2 * sets + MOST_SPARE))
        for position, shape in enumerate(problem.inputs):
            size = math.prod(shape)
            width = DTYPE_BYTES[problem.tensors[position][1]]
            least = LEAST_POOL_BYTES[arena.device.type == "cpu"] // width if size * width >= LARGE_BYTES else 0
            steps = max(size // 4 // STEP, 4 * windows, (least - size) // STEP)
            pool = trials.random_pool(problem, position, size + steps * STEP, generator)
            starts = dice.sample(range(steps + 1), windows)
            self._windows.append([_words(pool[start * STEP : start * STEP + size]) for start in starts])
            self._targets.append([_words(tensors[position].view(-1)) for tensors in self.sets])

        dtype = problem.output
        width = DTYPE_BYTES[dtype]
        self._outputs = arena.tensor(0, (arena.size // width,), dtype)
        starts = [output_start // width for *_, output_start in placement]
        self._starts = torch.tensor(starts, device=arena.device)
        self._output_size = math.prod(problem.output_shape)

    def refresh(self) -> None:
        """New inputs in every set; outputs, and all that lies between the tensors, become NaN."""
        self._whole.fill_(0xFF)  # NaN in every float dtype
        for windows, targets in zip(self._windows, self._targets, strict=True):
            sets = len(targets)
            rest = windows[sets:]  # not in use since the last time, and at least as many as the sets
            self._dice.shuffle(rest)
            windows[:] = rest + windows[:sets]
            torch._foreach_copy_(targets, windows[:sets])

    def originals(self, index: int) -> list[torch.Tensor]:
        """What a set's inputs were filled with: the referee's own memory, which no side can reach."""
        return [
            windows[index].view(getattr(torch, dtype)).view(shape)
            for windows, (shape, dtype) in zip(self._windows, self._problem.tensors[:-1], strict=True)
        ]

    def fill_exact(self) -> None:
        """Values with a unique result instead, in every set."""
        for *inputs, _ in self.sets:
            trials.fill_exact(self._problem, inputs, self._generator)

    def keep_inputs(self, index: int) -> list[torch.Tensor]:
        """Private copies of one set's inputs."""
        return [tensor.clone() for tensor in self.sets[index][:-1]]

    def look(self, launches: int, checked: int | None, inputs: list[torch.Tensor]) -> "Look":
        """What a block left: sketches of some outputs and, of the set to be checked, copies of all of it."""
        # Always the lead-in: who skips it has that much of the second clock to hide in.
        chosen = [0, *self._dice.sample(range(1, launches + 1), min(SKETCHED_SETS - 1, launches))]
        sketches = [
            trials.sketch(self._problem, self.originals(index), self.sets[index][-1], self._generator)
            for index in chosen
        ]
        sketch = torch.cat([*sketches, self._unwritten(launches)])
        if checked is None:
            return Look(sketch, sketch, [], [])
        *left, output = (tensor.clone() for tensor in self.sets[checked])
        return Look(sketch, output, inputs, left)

    def _unwritten(self, launches: int) -> torch.Tensor:
        """0, or NaN where one of a few elements of any launch's output is no finite number; one reading for all."""
        picks = torch.randint(
            self._output_size, (launches + 1, PROBES), device=self._starts.device, generator=self._generator
        )
        probed = self._outputs[self._starts[: launches + 1, None] + picks].float()
        return (probed - probed).sum().view(1)  # of infinity and NaN that is NaN


@dataclass(frozen=True, slots=True)
class Look:
    """What a block left behind. ``inputs`` are as they were before it, ``left`` as they were after."""

    sketch: torch.Tensor
    output: torch.Tensor
    inputs: list[torch.Tensor]
    left: list[torch.Tensor]

    @property
    def off(self) -> float | None:
        """How far the sketches are off at most; None where an output was left unwritten or holds NaN."""
        worst = float(self.sketch.max())  # the maximum of anything and NaN is NaN
        return worst if math.isfinite(worst) else None

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
