"""The interface of baselines, and the baseline of each problem."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from inspect import signature
from typing import Any

import torch

from harness.errors import UsageError
from harness.judge.facts.hashes import baseline_module, baseline_name
from harness.judge.facts.problem import Problem
from harness.machine.repository import ADOPTED


@dataclass(frozen=True, slots=True)
class Baseline:
    """A library call that takes the problem's inputs and writes its outputs: ``baseline(a, b, out)``.

    ``returns`` marks a call that can only return its outputs, the last ``outputs`` tensors of a launch. The baseline is
    then timed without a copy, while iter000 copies the results, and so is slower by the time of a copy.
    """

    name: str
    call: Callable[..., Any]
    returns: bool = False
    outputs: int = 1

    def __call__(self, *tensors: torch.Tensor) -> None:
        made = self.alone(*tensors)
        if self.returns:
            results = [made] if isinstance(made, torch.Tensor) else made
            for output, result in zip(tensors[len(tensors) - self.outputs :], results, strict=True):
                output.copy_(result)

    def alone(self, *tensors: torch.Tensor) -> Any:
        """The call as a user makes it, without copies of its outputs."""
        return self.call(*(tensors[: len(tensors) - self.outputs] if self.returns else tensors))


def library(problem: Problem) -> Baseline:
    """The function named like the problem's operator. Raises UsageError if no module here has one.

    A function without a parameter ``out``, or one named like an output, returns its outputs. Scalars and
    dimensions reach it as the keywords that it has.
    """
    module = baseline_module(ADOPTED.root, problem.operator)
    if module is None:
        raise UsageError(f"no baseline for operator '{problem.operator}'; add one to baselines/")
    call: Callable[..., Any] = getattr(import_module(f"baselines.{module.stem}"), problem.operator)
    returns = {"out", *problem.output_names}.isdisjoint(signature(call).parameters)
    outputs = len(problem.tensors) - len(problem.inputs)
    asked = problem.asked_by(call)
    return Baseline(baseline_name(module), partial(call, **asked) if asked else call, returns, outputs)
