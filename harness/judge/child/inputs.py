"""Tensors as the referee makes them, for a child that runs a kernel without a referee."""

import math
from typing import Any

from harness.judge.facts.problem import Problem


def inputs(problem: Problem, device: Any) -> list[Any]:
    """One tensor for each input of the problem, on a torch device or the device of that name."""
    import torch

    from harness.judge.child.trials import hide_unread, random_pool

    dice = torch.Generator(device)
    dice.seed()
    drawn = [
        random_pool(problem, position, math.prod(shape), dice).view(shape)
        for position, shape in enumerate(problem.inputs)
    ]
    hide_unread(problem, drawn)
    return drawn


def tensors(problem: Problem, device: Any) -> list[Any]:
    """What a launch takes: inputs, and outputs that hold poison."""
    import torch

    from harness.judge.child.trials import poison

    own = problem.tensors[len(problem.inputs) :]
    outputs = [torch.empty(shape, dtype=getattr(torch, dtype), device=device) for shape, dtype in own]
    poison(outputs)
    return [*inputs(problem, device), *outputs]
