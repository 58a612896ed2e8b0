"""The contents of a placement: fresh inputs in every set, NaN everywhere else, at the cost of a copy."""

import math
import random
from dataclasses import dataclass
from typing import Final

import torch

from harness.judge.child import trials
from harness.judge.child.arena import LARGE_BYTES, Arena, Set
from harness.judge.facts.device_rules import CPU_RULES, GPU_RULES
from harness.judge.facts.problem import DTYPE_BYTES, Problem

GUARD: Final = 0xFF  # a byte of NaN in every float dtype
GUARD_BYTES: Final = 512
STEP: Final = 64  # elements between possible windows: keeps the copies aligned
SKETCHED_SETS: Final = 4  # of a block, one of them the lead-in's
WINDOWS_A_SET: Final = 8
MIN_WINDOWS: Final = 32
PROBES: Final = 4  # elements of every launch's output; a skipped launch leaves all of them NaN
MAX_SPARE: Final = 200  # beyond these, pairs are rare enough to meet again


class Contents:
    """Fills the sets of one placement.

    Each input has a private pool of random values, at least a quarter longer than the input. On a GPU the pool is
    larger than the L2, so that no copy of it stays there. A set's input is a window of the pool. Choosing other windows
    changes every element of every set for the price of a device copy; drawing new values would take longer than the
    block. Each input has several times as many windows as sets, chosen by itself, so two rarely meet again in one set.
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
        self._windows: list[list[torch.Tensor]] = []  # per input; the windows in use come first
        self._targets: list[list[torch.Tensor]] = []
        sets = len(self.sets)
        rules = CPU_RULES if arena.device.type == "cpu" else GPU_RULES
        windows = max(MIN_WINDOWS, min(WINDOWS_A_SET * sets, 2 * sets + MAX_SPARE))
        for position, shape in enumerate(problem.inputs):
            size = math.prod(shape)
            width = DTYPE_BYTES[problem.tensors[position][1]]
            least = rules.least_pool_bytes // width if size * width >= LARGE_BYTES else 0
            steps = max(size // 4 // STEP, 4 * windows, (least - size) // STEP)
            pool = trials.random_pool(problem, position, size + steps * STEP, generator)
            starts = dice.sample(range(steps + 1), windows)
            self._windows.append([_words(pool[start * STEP : start * STEP + size]) for start in starts])
            self._targets.append([_words(tensors[position].view(-1)) for tensors in self.sets])

        self._gaps = _gaps(self.sets, self._whole)
        bounds = torch.tensor(self._gaps, device=arena.device).view(-1, 2)
        reach = torch.arange(GUARD_BYTES, device=arena.device)
        after = torch.minimum(bounds[:, :1] + reach, bounds[:, 1:] - 1)
        before = torch.maximum(bounds[:, 1:] - 1 - reach, bounds[:, :1])
        self._guards = torch.cat([after, before]).view(-1)
        dtype = problem.output
        width = DTYPE_BYTES[dtype]
        self._outputs = arena.tensor(0, (arena.size // width,), dtype)
        starts = [output_start // width for *_, output_start in placement]
        self._starts = torch.tensor(starts, device=arena.device)
        self._output_size = math.prod(problem.output_shape)

    def refresh(self) -> None:
        """New inputs in every set; all outputs, and all bytes between the tensors, become NaN."""
        self._whole.fill_(GUARD)
        for windows, targets in zip(self._windows, self._targets, strict=True):
            sets = len(targets)
            rest = windows[sets:]  # not in use since the last refresh, and at least as many as the sets
            self._dice.shuffle(rest)
            windows[:] = rest + windows[:sets]
            pairs = list(zip(targets, windows[:sets], strict=True))
            self._dice.shuffle(pairs)  # no launch can wait for its inputs by the order of the copies
            torch._foreach_copy_([target for target, _ in pairs], [window for _, window in pairs])

    def guards_held(self) -> bool:
        """Whether every byte between the tensors is still what ``refresh`` wrote there."""
        return not any(bool((self._whole[start:end] != GUARD).any()) for start, end in self._gaps)

    def originals(self, index: int) -> list[torch.Tensor]:
        """The values that a set's inputs were filled with, from memory that no side can reach."""
        return [
            windows[index].view(getattr(torch, dtype)).view(shape)
            for windows, (shape, dtype) in zip(self._windows, self._problem.tensors[:-1], strict=True)
        ]

    def fill_exact(self) -> None:
        """Fill every set with values that have one right result."""
        for *inputs, _ in self.sets:
            trials.fill_exact(self._problem, inputs, self._generator)

    def fill_corners(self, index: int) -> torch.Tensor | None:
        """Fill one set with corners; see ``trials.fill_corners``."""
        return trials.fill_corners(self._problem, self.sets[index][:-1], self._generator)

    def keep_inputs(self, index: int) -> list[torch.Tensor]:
        """Private copies of one set's inputs."""
        return [tensor.clone() for tensor in self.sets[index][:-1]]

    def look(self, launches: int, checked: int | None, inputs: list[torch.Tensor]) -> "Look":
        """What a block left: sketches of some outputs, and copies of the set to be checked."""
        # The lead-in is always among them: a contestant that skips it gains that much time to hide in.
        chosen = [0, *self._dice.sample(range(1, launches + 1), min(SKETCHED_SETS - 1, launches))]
        sketches = [
            trials.sketch(self._problem, self.originals(index), self.sets[index][-1], self._generator)
            for index in chosen
        ]
        sketch = torch.cat([*sketches, self._unwritten(launches), self._overwritten()])
        if checked is None:
            return Look(sketch, sketch, [], [])
        *left, output = (tensor.clone() for tensor in self.sets[checked])
        return Look(sketch, output, inputs, left)

    def _unwritten(self, launches: int) -> torch.Tensor:
        """0, or NaN if a probed element of any launch's output is not finite; one read from the device for all."""
        picks = torch.randint(
            self._output_size, (launches + 1, PROBES), device=self._starts.device, generator=self._generator
        )
        probed = self._outputs[self._starts[: launches + 1, None] + picks].float()
        return (probed - probed).sum().view(1)  # of infinity and NaN that is NaN

    def _overwritten(self) -> torch.Tensor:
        """0, or NaN if a byte beside a tensor has changed; it reads up to GUARD_BYTES on each side of a gap."""
        changed = (self._whole[self._guards] != GUARD).any().view(1)
        return torch.zeros(1, device=changed.device).masked_fill_(changed, math.nan)


def _gaps(sets: list[list[torch.Tensor]], whole: torch.Tensor) -> list[tuple[int, int]]:
    """Byte offsets of each gap, from its first byte to the one behind it, between the tensors of an arena."""
    base = whole.data_ptr()
    spans = sorted((each.data_ptr() - base, each.data_ptr() - base + each.nbytes) for one in sets for each in one)
    starts, ends = zip(*spans, strict=True)
    return [(end, start) for end, start in zip((0, *ends), (*starts, whole.nbytes), strict=True) if start > end]


@dataclass(frozen=True, slots=True)
class Look:
    """What a block left behind; ``inputs`` are the inputs before it, ``left`` the same after it."""

    sketch: torch.Tensor
    output: torch.Tensor
    inputs: list[torch.Tensor]
    left: list[torch.Tensor]

    @property
    def off(self) -> float | None:
        """The largest difference of the sketches; None if an output is unwritten or not finite, or a guard changed."""
        worst = float(self.sketch.max())  # the maximum of anything and NaN is NaN
        return worst if math.isfinite(worst) else None

    @property
    def inputs_held(self) -> bool:
        """Whether the inputs are unchanged, bit for bit."""
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
