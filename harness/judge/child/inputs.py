"""Inputs as the referee draws them, for those that run a kernel without one; in a child, since it needs torch."""

import math
from typing import Any

from harness.judge.facts.problem import Problem


def inputs(problem: Problem, device: Any) -> list[Any]:
    """A tensor for each input of the problem, on a torch device or the one of that name."""
    import torch

    from harness.judge.child.trials import random_pool

    dice = torch.Generator(device)
    dice.seed()
    return [
        random_pool(problem, position, math.prod(shape), dice).view(shape)
        for position, shape in enumerate(problem.inputs)
    ]
