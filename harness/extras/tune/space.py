"""A family's space: where it is found by name, what forms it may have, and the configurations it spans."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from harness.authoring import ladders
from harness.errors import UsageError
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem

Config = dict[str, Any]
Space = Sequence[Mapping[str, Any]] | Mapping[str, Sequence[Any]] | Callable[[Problem], Any]

SPACES: Final = "spaces"  # the module beside the families
PACKAGES: Final = {True: "kernels.cpu", False: "kernels.gemm"}  # by "is a CPU"
# What goes to the compiler and not to the family, unless the family takes it as a lever of its own.
COMPILER_LEVERS: Final = ("pass_configs", "compile_flags")
_OWN: Final = {("sm_90a", "kernels.gemm.pipelined"): "kernels.gemm.warp_specialized"}  # by what `new` starts with


def own_family(problem: Problem, gpu: Gpu) -> str:
    """The family that a problem is tuned in where none is named; raises UsageError where no family takes it."""
    drafted = ladders.draft(problem, gpu).family
    return _OWN.get((gpu.arch, drafted), drafted)


def named_family(name: str, gpu: Gpu) -> str:
    """The dotted name that a person's ``register_blocked`` or ``kernels.cpu.register_blocked`` means."""
    dotted = name if "." in name else f"{PACKAGES[gpu.is_cpu]}.{name}"
    parts = dotted.split(".")
    if parts[0] != "kernels" or len(parts) < 3 or not all(part.isidentifier() for part in parts):
        raise UsageError(f"family '{name}' is not a name such as kernels.gemm.stream_k or register_blocked")
    return dotted


def spaces_module(family: str) -> tuple[str, str]:
    """The module that holds a family's space, and the name it has there: ``kernels.gemm.spaces``, ``pipelined``."""
    package, _, name = family.rpartition(".")
    return f"{package}.{SPACES}", name


def expand(space: Space, problem: Problem) -> list[Config]:
    """All configurations of a space, each once, in its order; raises UsageError where it has none of the forms.

    A list holds configurations; a mapping from lever to values is their product; a callable gives either.
    """
    if callable(space):
        space = space(problem)
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
        raise UsageError(f"a space is a list, a product or a callable of the problem, not {type(space).__name__}")
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
