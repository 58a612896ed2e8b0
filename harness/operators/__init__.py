"""The operators of problems: the OPERATOR of each module of this package, named like its module."""

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Final

from harness.errors import unreadable
from harness.judge.facts.operator import Operator
from harness.machine import repository

OPERATORS: Final[dict[str, Operator]] = {}
UNREADABLE: Final[dict[str, str]] = {}  # operator -> why it cannot be used
_adopted: list[object] = []

__all__ = ["OPERATORS", "UNREADABLE", "Operator", "adopt"]


def adopt(root: Path) -> None:
    """Take a repository's operators beside the shipped ones, and its modules, both in place of another repository's.

    An operator that cannot be read is in UNREADABLE. Raises UsageError where a module's name is taken.
    """
    names = {package: repository.own_modules(root, package) for package in repository.OWN}
    paths = [root / repository.OWN[__name__] / f"{name}.py" for name in names[__name__]]
    state = [root, [(path, path.stat().st_mtime_ns) for path in paths if path.is_file()]]
    if state == _adopted:
        return
    repository.ADOPTED.adopt(root, names)
    _adopted[:] = state
    OPERATORS.clear()
    OPERATORS.update(_SHIPPED)
    UNREADABLE.clear()
    UNREADABLE.update(_UNREADABLE)
    for path in paths:
        _take(path.stem, path)


def _take(name: str, path: Path) -> None:
    try:
        found = getattr(import_module(f"{__name__}.{name}"), "OPERATOR", None)
    except Exception as error:  # an operator is a person's code
        UNREADABLE[name] = unreadable(path, error)
        return
    if found is None:  # most often a module that operators share
        UNREADABLE[name] = f"{path}: it sets no OPERATOR"
    elif isinstance(found, Operator) and found.name == name:
        OPERATORS[name] = found
    else:
        UNREADABLE[name] = f"{path}: OPERATOR must be an Operator with the name '{name}', as its file has"


for _module in iter_modules(__path__):
    _take(_module.name, Path(__path__[0]) / f"{_module.name}.py")
_SHIPPED: Final = dict(OPERATORS)
_UNREADABLE: Final = dict(UNREADABLE)
