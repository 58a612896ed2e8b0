"""In place of ``time``: a clock that counts the functions called, the same on a loaded machine as on an idle one."""

import sys
from typing import Any, Final

CALLS: Final = ("call", "c_call")
_called = 0


def perf_counter() -> float:
    """A µs for each function called since the first reading."""
    sys.setprofile(_count)
    return _called * 1e-6


def _count(frame: Any, event: str, argument: Any) -> None:
    global _called
    _called += event in CALLS
