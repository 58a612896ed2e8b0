"""The one interface of a baseline, and which baseline a problem has."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules

import torch

import baselines
from harness.errors import UsageError
from harness.problem import Problem


@dataclass(frozen=True, slots=True)
class Baseline:
    """A library call that takes the problem's inputs and writes its output: ``baseline(a, b, out)``."""

    name: str
    call: Callable[..., None]

    def __call__(self, *tensors: torch.Tensor) -> None:
        self.call(*tensors)


def library(problem: Problem) -> Baseline:
    """The function named like the problem's operator, of the module here that has one; raises UsageError.

    The module's name is the baseline's: ``torch_matmul`` holds those of ``torch.matmul``.
    """
    for found in iter_modules(baselines.__path__):
        call = getattr(import_module(f"baselines.{found.name}"), problem.operator, None)
        if call is not None:
            return Baseline(found.name.replace("_", ".", 1), call)
    raise UsageError(f"no baseline for operator '{problem.operator}'; add one to baselines/")
