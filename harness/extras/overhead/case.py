"""A call to be timed beside torch's call for the same."""

from collections.abc import Callable
from dataclasses import dataclass

Call = Callable[[], object]


@dataclass(frozen=True, slots=True)
class TimedCall:
    """``is_right`` checks the value that the call returned; ``first_ms`` is the wall time of the first call."""

    call: Call
    torch_call: Call
    is_right: Callable[[object], bool]
    backend: str = ""
    first_ms: float | None = None
