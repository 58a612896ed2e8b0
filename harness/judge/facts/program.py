"""What an iteration's ``build`` returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Workspace:
    """A zero-filled scratch tensor, allocated once and passed to the kernel after its output."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel before it is compiled: the prim_func takes (inputs…, output, workspaces…), all given by the caller.

    ``pass_configs`` and ``compile_flags`` go to ``tilelang.compile`` as they are. ``dynamic`` names the dimensions of
    the problem, such as ``("M",)``, that the prim_func leaves symbolic: one kernel for all their sizes.
    """

    prim_func: Any
    pass_configs: Mapping[str, object] = field(default_factory=dict)
    compile_flags: tuple[str, ...] = ()
    workspaces: tuple[Workspace, ...] = ()
    dynamic: tuple[str, ...] = ()
