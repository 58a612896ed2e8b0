"""A search space: its forms, the configurations that it spans, and their text."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from harness.catalog.families import Space
from harness.errors import UsageError
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem

Config = dict[str, Any]


def expand(space: Space, problem: Problem, gpu: Gpu) -> list[Config]:
    """All configurations of a space, each once, in the space's order; raises UsageError for any other form."""
    if callable(space):
        space = space(problem, gpu)
    if isinstance(space, Mapping):
        if any(isinstance(values, str) or not isinstance(values, Sequence) for values in space.values()):
            raise UsageError("a product space maps each lever to the list of its values")
        chosen: Iterable[Mapping[str, Any]] = (
            dict(zip(space, values, strict=True)) for values in itertools.product(*space.values())
        )
    elif isinstance(space, Iterable):
        chosen = list(space)
        if not all(isinstance(each, Mapping) for each in chosen):
            raise UsageError("a list space holds configurations, each a dict from lever to value")
    else:
        raise UsageError(f"a space is a list, a product or a function of problem and GPU, not {type(space).__name__}")
    return unique(map(dict, chosen))


def unique(configs: Iterable[Config]) -> list[Config]:
    """The configurations in their order, the second of two equal ones left out."""
    return list({text(each): frozen(each) for each in reversed(list(configs))}.values())[::-1]


def text(config: Mapping[str, Any]) -> str:
    """The same for equal configurations: levers sorted, lists and tuples alike."""
    return msgspec.json.encode(dict(sorted(config.items())), order="sorted").decode()


def frozen(value: Any) -> Any:
    """As it was before JSON: lists are tuples again, in which form families take them."""
    if isinstance(value, Mapping):
        return {str(name): frozen(each) for name, each in value.items()}
    return tuple(map(frozen, value)) if isinstance(value, list | tuple) else value


def words(config: Mapping[str, Any], besides: Iterable[str] = ()) -> str:
    """A configuration for a person, without the levers that are named elsewhere: ``block_M=8, block_N=32``."""
    left_out = set(besides)
    return ", ".join(f"{name}={value}" for name, value in config.items() if name not in left_out) or "no levers"


def constant(configs: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """The levers that have one value in all configurations."""
    values: dict[str, set[str]] = {}
    for each in configs:
        for name, value in each.items():
            values.setdefault(name, set()).add(text({name: value}))
    return frozenset(name for name, found in values.items() if len(found) == 1 and all(name in c for c in configs))
