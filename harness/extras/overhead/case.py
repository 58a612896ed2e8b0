"""A case: a call to be timed, torch's call for the same, and whether what it returned is right."""

from collections.abc import Callable
from dataclasses import dataclass

Call = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Case:
    """``is_right`` takes what the call returned; ``first_ms`` is the wall time of its first call, where that says
    something."""

    call: Call
    torch_call: Call
    is_right: Callable[[object], bool]
    backend: str = ""
    first_ms: float | None = None
