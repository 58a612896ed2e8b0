"""The one interface of a baseline, and which baseline a problem has."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

import torch

from harness.errors import UsageError
from harness.problem import Problem
from harness.sources import baseline_module, baseline_name

CHECKOUT: Final = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Baseline:
    """A library call that takes the problem's inputs and writes its output: ``baseline(a, b, out)``."""

    name: str
    call: Callable[..., None]

    def __call__(self, *tensors: torch.Tensor) -> None:
        self.call(*tensors)


def library(problem: Problem) -> Baseline:
    """The function named like the problem's operator, of the module here that has one; raises UsageError."""
    module = baseline_module(CHECKOUT, problem.operator)
    if module is None:
        raise UsageError(f"no baseline for operator '{problem.operator}'; add one to baselines/")
    call: Callable[..., None] = getattr(import_module(f"baselines.{module.stem}"), problem.operator)
    return Baseline(baseline_name(module), call)
