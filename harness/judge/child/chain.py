"""A chain of launches, as a caller makes it: one reads what another wrote, without a wait of the host between them.

A launch that begins before the launch before it has ended is right in every block of separate sets, and wrong here.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import torch

from harness.judge.child import trials
from harness.judge.child.arena import Set
from harness.judge.facts.fills import Normal
from harness.judge.facts.problem import Problem
from harness.operators import OPERATORS
from harness.records.results import Trial

SETS: Final = 3  # the lead-in, which an event may part from the next, and two that follow each other at once


def link(problem: Problem) -> int | None:
    """The input that can be the output of another launch: of its shape and dtype, and of any values.

    None for an operator that has no such input, or several outputs, or masks.
    """
    operator = OPERATORS[problem.operator]
    *inputs, output = problem.tensors
    if len(problem.outputs) > 1 or problem.places[0] < len(problem.inputs) or operator.unread or operator.equivalent:
        return None
    fits = (each == output and isinstance(fill, Normal) for each, fill in zip(inputs, problem.fills, strict=True))
    return next((position for position, fit in enumerate(fits) if fit), None)


def linked(placement: Sequence[Set], position: int) -> tuple[Set, ...]:
    """The second launch reads what the first writes, and writes where the first reads."""
    lead_in, first, second = placement
    return lead_in, first, (*second[:position], first[-1], *second[position + 1 : -1], first[position])


def compare(problem: Problem, inputs: Sequence[torch.Tensor], read: torch.Tensor) -> Iterator[Trial]:
    """Compare the second launch's output with the reference of what the first wrote, if that is finite."""
    expected = trials.reference(problem, inputs)
    if bool(torch.isfinite(expected).all()):
        rows, wanted = (each.reshape(-1, read.shape[-1]) for each in (read, expected))
        yield trials.compare_scaled("chained", problem, rows, wanted)
