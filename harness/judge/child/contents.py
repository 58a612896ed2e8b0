"""The contents of a placement: fresh inputs in every set, poison everywhere else, at the cost of a copy."""

import math
import random
from dataclasses import dataclass
from typing import Final

import torch

from harness.judge.child import trials
from harness.judge.child.arena import Arena, Set, Shape, Span
from harness.judge.child.completion import Completion
from harness.judge.child.windows import placed, words
from harness.judge.facts.problem import DTYPE_BYTES, Problem

GUARD: Final = trials.POISON
GUARD_BYTES: Final = 512
_WORD_BYTES: Final = 4
SKETCHED_SETS: Final = 4  # of a block, one of them the lead-in's
WHOLE_SETS: Final = 2  # where each costs a reference
PROBES: Final = 4  # elements of every launch's output; a skipped launch leaves all of them poison
SEED_BITS: Final = 56


class Contents:
    """Fills the sets of one placement, and the rest of a span of the arena."""

    def __init__(
        self,
        problem: Problem,
        arena: Arena,
        placement: tuple[Set, ...],
        span: Span,
        generator: torch.Generator,
        dice: random.Random,
    ) -> None:
        self.placement = placement
        self.sets = arena.sets(problem, placement)
        self._dice = dice
        self._generator = generator
        self._whole = arena.tensor(span[0], (span[1] - span[0],), "uint8")
        self._problem = problem
        self._inputs = len(problem.inputs)
        self._placed = placed(problem, self.sets, generator, dice)
        self._gaps = _gaps(self.sets, self._whole)
        outputs = [each for one in self.sets for each in one[self._inputs :]]
        self._unread, self._poisoned = [self._whole], [each for each in outputs if not each.is_floating_point()]
        if arena.device.type == "cpu":  # a host fills many parts as fast as one, and need not fill inputs twice
            inputs = [one[: self._inputs] for one in self.sets]
            self._unread = [self._whole[start:end] for start, end in _gaps(inputs, self._whole)]
        bounds = torch.tensor(self._gaps, device=arena.device).view(-1, 2)
        reach = torch.arange(GUARD_BYTES, device=arena.device)
        after = torch.minimum(bounds[:, :1] + reach, bounds[:, 1:] - 1)
        before = torch.maximum(bounds[:, 1:] - 1 - reach, bounds[:, :1])
        self._guards = torch.cat([after, before]).view(-1)
        self._probed = [
            _Probed(arena, placement, position, *problem.tensors[position])
            for position in range(self._inputs, len(problem.tensors))
        ]

    def refresh(self, seed: int | None = None) -> None:
        """New inputs in every set; all outputs, and all other bytes of the span, become poison.

        The inputs that all sets share depend on the ``seed`` alone; without one they are as new as the others.
        """
        for each in self._unread:
            each.fill_(GUARD)
        trials.poison(self._poisoned)
        shared = torch.Generator(self._whole.device)
        shared.manual_seed(self._dice.getrandbits(SEED_BITS) if seed is None else seed)
        for one in self._placed:
            one.refresh(self._dice, shared)
        for tensors in self.sets:
            trials.hide_unread(self._problem, tensors[: self._inputs])

    def guards_held(self) -> bool:
        """Whether every byte between the tensors is still what ``refresh`` wrote there."""
        return all(_is_guard(self._whole[start:end]) for start, end in self._gaps)

    def originals(self, index: int) -> list[torch.Tensor]:
        """The values that a set's inputs were filled with, from memory that no side can reach."""
        drawn = [each.original(index) for each in self._placed]
        if self._problem.hides:
            drawn = [each.clone() for each in drawn]
            trials.hide_unread(self._problem, drawn)
        return drawn

    def fill_exact(self) -> bool:
        """Fill every set with values that have one right result; False if the operator knows none."""
        filled = [trials.fill_exact(self._problem, one[: self._inputs], self._generator) for one in self.sets]
        return all(filled)

    def fill_corners(self, index: int) -> torch.Tensor | None:
        """Fill one set with corners; see ``trials.fill_corners``."""
        return trials.fill_corners(self._problem, self.sets[index][: self._inputs], self._generator)

    def keep_inputs(self, index: int) -> list[torch.Tensor]:
        """Private copies of one set's inputs."""
        return [tensor.clone() for tensor in self.sets[index][: self._inputs]]

    def completion(self, launches: int, launch_ms: float) -> Completion:
        """A watch over the outputs of a block of so many launches, the lead-in not counted."""
        return Completion([self._outputs(one) for one in self.sets[: launches + 1]], launch_ms, self._dice)

    def unwritten(self, launches: int) -> torch.Tensor:
        """NaN for an output of a launch that is not written yet; asked at once, it finds an answer that came early.

        It says nothing of what is written in place, since a right value may be that of before.
        """
        none = torch.zeros(1, device=self._whole.device)
        return torch.cat([none, *(each.unwritten(launches, self._generator) for each in self._probed)])

    def look(self, launches: int, checked: int | None, inputs: list[torch.Tensor] | None = None) -> "Look":
        """What a block left: sketches of some outputs, and copies of the set to be checked and of its inputs.

        Those are the originals unless given.
        """
        unwritten = self.unwritten(launches)  # first: what is written after the block has ended comes too late
        # Both ends of the block are more often among them: a contestant that skips the lead-in gains that much time to
        # hide in, and the last launch says when the block ended.
        sets = WHOLE_SETS if not self._problem.has_sketch and self._problem.rows is None else SKETCHED_SETS
        ends = self._dice.sample((0, launches), sets // 2)
        rest = self._dice.sample(range(1, launches + 1), min(sets - len(ends), launches))
        chosen = dict.fromkeys((*ends, *rest))
        sketches = [
            trials.deviation(self._problem, self.originals(index), self._outputs(self.sets[index]), self._generator)
            for index in chosen
        ]
        sketch = torch.cat([*sketches, unwritten, self._overwritten()])
        if checked is None:
            return Look(sketch, [], [], [])
        left = [tensor.clone() for tensor in self.sets[checked]]
        inputs = self.originals(checked) if inputs is None else inputs
        kept = [each for each in range(self._inputs) if each not in self._problem.places]
        return Look(sketch, self._outputs(left), inputs, [(inputs[each], left[each]) for each in kept])

    def _outputs(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        return [tensors[place] for place in self._problem.places]

    def _overwritten(self) -> torch.Tensor:
        """0, or NaN if a byte beside a tensor has changed; it reads up to GUARD_BYTES on each side of a gap."""
        changed = (self._whole[self._guards] != GUARD).any().view(1)
        return torch.zeros(1, device=changed.device).masked_fill_(changed, math.nan)


class _Probed:
    """The tensors of one output in an arena, of which a few elements of each launch are read."""

    def __init__(self, arena: Arena, placement: tuple[Set, ...], position: int, shape: Shape, dtype: str) -> None:
        width = DTYPE_BYTES[dtype]
        whole = arena.tensor(0, (arena.size // width,), dtype)
        self._whole = whole if whole.is_floating_point() else trials.as_integers(whole)  # reading a bool may change it
        self._starts = torch.tensor([each[position] // width for each in placement], device=arena.device)
        self._size = math.prod(shape)

    def unwritten(self, launches: int, dice: torch.Generator) -> torch.Tensor:
        """0, or NaN if a probed element of any launch is not written; one read from the device for all.

        A byte may be poison and right, but not all that are probed of one launch.
        """
        picks = torch.randint(self._size, (launches + 1, PROBES), device=self._starts.device, generator=dice)
        probed = self._whole[self._starts[: launches + 1, None] + picks]
        if probed.itemsize > 1:
            return trials.unwritten(probed).view(1)
        skipped = (trials.as_integers(probed) == trials.poison_of(probed)).all(dim=1).any()
        return torch.zeros(1, device=probed.device).masked_fill_(skipped, math.nan)


def _is_guard(memory: torch.Tensor) -> bool:
    """Whether each byte is GUARD; in words of four, of which a CPU reads 20 times as many a second as of one."""
    head = min(-memory.storage_offset() % _WORD_BYTES, len(memory))
    tail = len(memory) - (len(memory) - head) % _WORD_BYTES
    if any(bool((each != GUARD).any()) for each in (memory[:head], memory[tail:])):
        return False
    word = torch.full((_WORD_BYTES,), GUARD, dtype=torch.uint8).view(torch.int32).item()
    return head == tail or all(int(each) == word for each in memory[head:tail].view(torch.int32).aminmax())


def _gaps(sets: list[list[torch.Tensor]], whole: torch.Tensor) -> list[tuple[int, int]]:
    """Byte offsets of each gap, from its first byte to the one behind it, between the tensors of an arena."""
    base = whole.data_ptr()
    spans = sorted((each.data_ptr() - base, each.data_ptr() - base + each.nbytes) for one in sets for each in one)
    starts, ends = zip(*spans, strict=True)
    return [(end, start) for end, start in zip((0, *ends), (*starts, whole.nbytes), strict=True) if start > end]


@dataclass(frozen=True, slots=True)
class Look:
    """What a block left behind: outputs, the inputs before it, and pairs of those that it must leave, before and after.

    An output in the memory of an input is among the outputs alone.
    """

    sketch: torch.Tensor
    outputs: list[torch.Tensor]
    inputs: list[torch.Tensor]
    kept: list[tuple[torch.Tensor, torch.Tensor]]

    @property
    def off(self) -> float | None:
        """The largest difference of the sketches; None if an output is unwritten or not finite, or a guard changed."""
        worst = float(self.sketch.max())  # the maximum of anything and NaN is NaN
        return worst if math.isfinite(worst) else None

    @property
    def inputs_held(self) -> bool:
        """Whether the inputs are unchanged, bit for bit."""
        return all(torch.equal(words(before), words(after)) for before, after in self.kept)
