"""The operators of problems: the OPERATOR of each module of this package, named like its module."""

from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from harness.judge.facts.operator import Operator

_MODULES: Final = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
OPERATORS: Final[dict[str, Operator]] = {
    module.OPERATOR.name: module.OPERATOR for module in _MODULES if hasattr(module, "OPERATOR")
}

__all__ = ["OPERATORS", "Operator"]
