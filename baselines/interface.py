"""The interface of baselines, and the baseline of each problem."""

from collections.abc import Callable, Sequence
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
    ``prepare`` gives what takes the inputs' places in the call. The judge leaves its time out, iter000 does not.
    """

    name: str
    call: Callable[..., Any]
    returns: bool = False
    outputs: int = 1
    prepare: Callable[..., Sequence[torch.Tensor]] | None = None

    def __call__(self, *tensors: torch.Tensor) -> None:
        self.writing(*self.prepared(*tensors))

    def prepared(self, *tensors: torch.Tensor) -> Sequence[torch.Tensor]:
        if self.prepare is None:
            return tensors
        inputs = len(tensors) - self.outputs
        return *self.prepare(*tensors[:inputs]), *tensors[inputs:]

    def writing(self, *tensors: torch.Tensor) -> None:
        """The call on prepared inputs, with copies of its outputs where it returns them."""
        made = self.alone(*tensors)
        if self.returns:
            results = [made] if isinstance(made, torch.Tensor) else made
            for output, result in zip(tensors[len(tensors) - self.outputs :], results, strict=True):
                output.copy_(result)

    def alone(self, *tensors: torch.Tensor) -> Any:
        """The call as a user makes it on prepared inputs, without copies of its outputs."""
        return self.call(*(tensors[: len(tensors) - self.outputs] if self.returns else tensors))


def library(problem: Problem) -> Baseline:
    """The function named like the problem's operator. Raises UsageError if no module here has one.

    A function without a parameter ``out``, or one named like an output, returns its outputs. Scalars and
    dimensions reach it as the keywords that it has. A function ``prepare_<operator>`` beside it does what a user does
    once, such as packing weights: it takes the inputs, and returns what takes their places.
    A function ``name_<operator>`` names the call where the module's name does not.
    """
    module = baseline_module(ADOPTED.root, problem.operator)
    if module is None:
        raise UsageError(f"no baseline for operator '{problem.operator}'; add one to baselines/")
    loaded = import_module(f"baselines.{module.stem}")
    call: Callable[..., Any] = getattr(loaded, problem.operator)
    returns = {"out", *problem.output_names}.isdisjoint(signature(call).parameters)
    outputs = len(problem.tensors) - len(problem.inputs)
    asked = problem.asked_by(call)
    prepare = getattr(loaded, f"prepare_{problem.operator}", None)
    named = getattr(loaded, f"name_{problem.operator}", lambda: baseline_name(module))
    return Baseline(named(), partial(call, **asked) if asked else call, returns, outputs, prepare)
