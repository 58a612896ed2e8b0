"""The clock: it times one block of launches, in the same way for contestant and baseline.

This module binds everything that reads a time when it is imported, before any iteration is loaded.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import torch

from harness.judge.child.launches import Call, captured, described_nodes, graph_order
from harness.judge.child.order import complaint_of_lead_in, complaint_of_order

_now: Final = time.perf_counter
_synchronize: Final = torch.cuda.synchronize
_Event: Final = torch.cuda.Event
_record: Final = torch.cuda.Event.record
_wait: Final = torch.cuda.Event.synchronize
_elapsed_ms: Final = torch.cuda.Event.elapsed_time
_instantiate: Final = torch.cuda.CUDAGraph.instantiate
_replay: Final = torch.cuda.CUDAGraph.replay
_captured: Final = captured
_order: Final = graph_order
_complaint: Final = complaint_of_order
_described_nodes: Final = described_nodes
_complaint_of_lead_in: Final = complaint_of_lead_in


class Clock(Protocol):
    """Holds the calls of a block. ``run`` returns the ms of so many repetitions once the device is idle.

    ``overlap`` is the complaint about calls that do not wait for each other; empty where none was seen.
    """

    overlap: str

    def run(self, repetitions: int = 1) -> float: ...


class HostClock:
    """The host's monotonic clock, for calls that return when their work is done."""

    overlap = ""

    def __init__(self, lead_in: Call, calls: Sequence[Call]) -> None:
        self.lead_in, self.calls = lead_in, calls

    def run(self, repetitions: int = 1) -> float:
        self.lead_in()
        start = _now()
        for _ in range(repetitions):
            for call in self.calls:
                call()
        return (_now() - start) * 1e3


class EventClock:
    """Device events around the calls; the lead-in keeps the device busy while the host queues the first call."""

    overlap = ""

    def __init__(self, lead_in: Call, calls: Sequence[Call]) -> None:
        self.lead_in, self.calls = lead_in, calls
        self.start, self.end = _new_event(), _new_event()

    def run(self, repetitions: int = 1) -> float:
        self.lead_in()
        _record(self.start)
        for _ in range(repetitions):
            for call in self.calls:
                call()
        _record(self.end)
        return _finish(self.start, self.end)


class GraphClock:
    """All calls captured once in a CUDA graph, and the lead-in in another: no host code of a side runs in a block.

    The first graph shows the order of the calls. A lead-in called from Python can end before the host has returned from
    it; then the device stands idle before ``start``, which the referee's clock counts.
    """

    def __init__(self, lead_in: Call, calls: Sequence[Call]) -> None:
        self.start, self.end = _new_event(), _new_event()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            lead_in()  # the set-up of a first call must not be captured
        _synchronize()
        self.graph, self.lead_in = (_captured(each, stream) for each in (calls, [lead_in]))
        graph, lead_in_graph = self.graph.raw_cuda_graph(), self.lead_in.raw_cuda_graph()
        self.overlap = _complaint(*_order(graph), len(calls)) or _complaint_of_lead_in(
            _described_nodes(lead_in_graph), _described_nodes(graph), len(calls)
        )
        _instantiate(self.graph)
        _instantiate(self.lead_in)
        _synchronize()

    def run(self, repetitions: int = 1) -> float:
        _replay(self.lead_in)
        _record(self.start)
        for _ in range(repetitions):
            _replay(self.graph)
        _record(self.end)
        return _finish(self.start, self.end)


CLOCKS: Final[dict[str, Callable[[Call, Sequence[Call]], Clock]]] = {
    "host": HostClock,
    "events": EventClock,
    "graph": GraphClock,
}


def _new_event() -> torch.cuda.Event:
    event: torch.cuda.Event = _Event(enable_timing=True)  # type: ignore[no-untyped-call]
    return event


def _finish(start: torch.cuda.Event, end: torch.cuda.Event) -> float:
    _wait(end)
    _synchronize()  # waits for work on other streams too, so the referee's clock sees it
    return float(_elapsed_ms(start, end))
