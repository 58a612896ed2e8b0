"""One iteration's outcome in one line, as a run prints it."""

from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import parse_shape_key
from harness.machine.table import bounded
from harness.records.base import Status
from harness.records.results import Record
from harness.records.throughput import throughput


def result_line(record: Record, gpu: Gpu, *, reused: bool = False) -> str:
    head = f"{record.status:<9} {record.shape_key} {record.model} {record.iteration}: "
    tail = "  (recorded before)" if reused else ""
    measured = record.measurement
    if record.status is not Status.PASSED:
        return f"{head}{record.stage}: {record.reason}{tail}"
    if measured is None:
        return f"{head}{record.stage}{tail}"
    rate = throughput(parse_shape_key(record.shape_key), gpu, measured.time_ms)
    return f"{head}{measured.time_ms:.4g} ms, {rate}, ratio {bounded(measured)}{tail}"
