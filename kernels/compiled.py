"""A family with what the compiler is told: pass configs and compile flags beside the family's own levers."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from harness.iteration import Problem, Program


def compiled(
    family: Callable[..., Program],
    problem: Problem,
    *,
    pass_configs: Mapping[str, object] | None = None,
    compile_flags: tuple[str, ...] = (),
    **levers: Any,
) -> Program:
    """The family's program; ``pass_configs`` and ``compile_flags`` are added to those that the family sets itself."""
    made = family(problem, **levers)
    return replace(
        made,
        pass_configs={**made.pass_configs, **(pass_configs or {})},
        compile_flags=(*made.compile_flags, *compile_flags),
    )
