"""Names and durations of kernels without counters, from a trace that torch's profiler (CUPTI activity) writes."""

from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from harness.errors import InfrastructureError
from harness.records.profiles import KernelTime

PROFILER: Final = "torch.profiler"


class TraceEvent(msgspec.Struct, frozen=True):
    """One entry of a trace; ``dur`` is in µs."""

    cat: str = ""
    name: str = ""
    dur: float = 0.0


class Trace(msgspec.Struct, frozen=True):
    traceEvents: list[TraceEvent] = []  # noqa: N815


def read(path: Path) -> tuple[KernelTime, ...]:
    """Each kernel of a trace with its median duration, in the order of first launch. Raises InfrastructureError."""
    try:
        trace = msgspec.json.decode(path.read_bytes(), type=Trace)
    except OSError as error:
        raise InfrastructureError(f"{path}: the trace cannot be read: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise InfrastructureError(f"{path}: not a trace of torch.profiler ({error})") from None
    launches: dict[str, list[float]] = {}
    for event in trace.traceEvents:
        if event.cat == "kernel":
            launches.setdefault(event.name, []).append(event.dur)
    if not launches:
        raise InfrastructureError(f"{path}: the trace holds no kernel; CUPTI may be missing from this build of torch")
    return tuple(KernelTime(name, round(median(durations), 3)) for name, durations in launches.items())
