"""Host time per call: each way to call in a process of its own, so that a crash loses one figure."""

from pathlib import Path
from typing import Final

from harness.catalog.tree import Tree
from harness.extras.overhead.ways import HostTime, Way, run_way, ways
from harness.judge.child.brief import Brief
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import parse_shape_key
from harness.judge.processes import UNLIMITED_BYTES, Ended, Worker, measuring_core, start_forkserver
from harness.machine import files
from harness.machine.nvml import Device
from harness.machine.progress import Reporter
from harness.machine.table import figure
from harness.machine.table import table as as_table
from harness.runs.run import alone

DEADLINE_S: Final = 120.0
_ANY_PROBLEM: Final = parse_shape_key("matmul_f32fp32_16x16x16")  # a brief needs one; the child ignores it


def measure(tree: Tree, gpu: Gpu, device: Device | None, reporter: Reporter) -> list[HostTime]:
    """Time all ways, one after another, on an otherwise idle device."""
    times = []
    with alone(tree, gpu, device), files.scratch("overhead") as folder:
        reporter.doing("importing torch and TileLang")
        start_forkserver(gpu, device)
        for way in ways():
            reporter.doing(f"{way.spelling} {way.backend}")
            found = _one(tree, gpu, way, folder)
            times.append(found)
            took = found.reason if found.us is None else f"{found.us:.2f} µs"
            reporter.finished(f"{f'{way.spelling} {way.backend}'.strip()}: {took}")
    return times


def table(times: list[HostTime], table_format: str = "simple") -> str:
    """All ways, one a row."""

    def of_torch(each: HostTime) -> float | None:
        return None if each.us is None or each.torch_us is None else each.us / each.torch_us

    return as_table(
        times,
        {
            "spelling": lambda each: each.spelling,
            "backend": lambda each: ": ".join(dict.fromkeys(filter(None, (each.requested, each.backend)))),
            "µs per call": lambda each: figure(each.us, ".2f"),
            "±": lambda each: figure(each.spread_us, ".2f"),
            "of torch's": lambda each: figure(of_torch(each), ".2f"),
            "notes": lambda each: each.notes,
        },
        table_format,
        right=("µs per call", "±", "of torch's"),
        optional=("±",),
    )


def _one(tree: Tree, gpu: Gpu, way: Way, folder: Path) -> HostTime:
    brief = Brief(tree.root, _ANY_PROBLEM, gpu, measuring_core(gpu))
    worker = Worker(way.spelling, run_way, (brief, way, folder), UNLIMITED_BYTES)
    try:
        found: HostTime = worker.hear(HostTime, DEADLINE_S)
        return found
    except Ended as ended:
        return HostTime(way.spelling, way.backend, reason=ended.reason)
    finally:
        worker.end()
