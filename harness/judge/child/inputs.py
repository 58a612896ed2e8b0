"""Inputs as the referee draws them, for a child that runs a kernel without a referee."""

import math
from typing import Any

from harness.judge.facts.problem import Problem


def inputs(problem: Problem, device: Any) -> list[Any]:
    """One tensor for each input of the problem, on a torch device or the device of that name."""
    import torch

    from harness.judge.child.trials import random_pool

    dice = torch.Generator(device)
    dice.seed()
    return [
        random_pool(problem, position, math.prod(shape), dice).view(shape)
        for position, shape in enumerate(problem.inputs)
    ]
