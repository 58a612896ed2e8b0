"""One iteration's outcome in one line, as a run prints it."""

from harness.judge.facts.problem import parse_shape_key
from harness.records.base import Status
from harness.records.results import Record
from harness.runs.copy_bandwidth import bandwidth_gbs


def result_line(record: Record, *, reused: bool = False) -> str:
    """One iteration's outcome, in one line."""
    name = f"{record.shape_key} {record.model} {record.iteration}"
    tail = "  (recorded before)" if reused else ""
    if record.status is not Status.PASSED:
        return f"{record.status:<9} {name}: {record.stage}: {record.reason}{tail}"
    measured = record.measurement
    if measured is None:
        return f"{record.status:<9} {name}: {record.stage}{tail}"
    problem = parse_shape_key(record.shape_key)
    moves = problem.flops < problem.bytes
    rate = f"{bandwidth_gbs(problem, measured):.4g} GB/s" if moves else f"{measured.tflops:.4g} TFLOPS"
    return (
        f"{record.status:<9} {name}: {measured.time_ms:.4g} ms, {rate}, "
        f"ratio {measured.ratio:.4f} [{measured.ratio_low:.4f}, {measured.ratio_high:.4f}]{tail}"
    )
