"""The figures: each way in a process of its own, so that one that crashes takes no other with it."""

from pathlib import Path

import msgspec
from tabulate import tabulate

from harness.catalog.tree import Tree
from harness.extras.overhead.ways import Refused, Took, Way, run_way, ways
from harness.judge.child.brief import Brief
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import parse_shape_key
from harness.judge.processes import UNLIMITED_BYTES, Ended, Worker, measuring_core, start_forkserver
from harness.machine import files
from harness.machine.nvml import Device
from harness.machine.progress import Reporter
from harness.runs.run import alone

DEADLINE_S = 120.0
_ANY_PROBLEM = parse_shape_key("matmul_f32fp32_16x16x16")  # a child's brief names one; nothing is asked of it here


class Figure(msgspec.Struct, frozen=True):
    """One row; µs are None where the way does not exist here, and ``reason`` says why.

    ``torch_us`` is torch's call for the same: an addition, or a product beside the front's.
    """

    spelling: str
    requested: str
    backend: str
    us: float | None
    spread_us: float | None
    torch_us: float | None
    reason: str | None = None
    first_ms: float | None = None


def measure(tree: Tree, gpu: Gpu, device: Device | None, reporter: Reporter) -> list[Figure]:
    """All ways, one after another, on an otherwise idle device."""
    figures = []
    with alone(tree, gpu, device), files.scratch("overhead") as folder:
        reporter.doing("importing torch and TileLang")
        start_forkserver(gpu, device)
        for way in ways():
            reporter.doing(f"{way.spelling} {way.backend}")
            figures.append(_one(tree, gpu, way, folder))
            reporter.finished(_line(figures[-1]))
    return figures


def table(figures: list[Figure], table_format: str = "simple") -> str:
    rows = [
        (
            each.spelling,
            each.requested if each.backend in ("", each.requested) else f"{each.requested}: {each.backend}",
            "" if each.us is None else f"{each.us:.2f}",
            "" if each.spread_us is None else f"{each.spread_us:.2f}",
            "" if each.us is None or each.torch_us is None else f"{each.us / each.torch_us:.2f}",
            each.reason or ("" if each.first_ms is None else f"first call {each.first_ms:.0f} ms"),
        )
        for each in figures
    ]
    headers = ("spelling", "backend", "µs per call", "±", "of torch's", "notes")
    align = ("left", "left", "right", "right", "right", "left")
    return tabulate(rows, headers=headers, tablefmt=table_format, disable_numparse=True, colalign=align)


def _one(tree: Tree, gpu: Gpu, way: Way, folder: Path) -> Figure:
    brief = Brief(tree.root, _ANY_PROBLEM, gpu, measuring_core(gpu))
    worker = Worker(way.spelling, run_way, (brief, way, folder), UNLIMITED_BYTES)
    try:
        said: Took | Refused = worker.hear(Took | Refused, DEADLINE_S)
    except Ended as ended:
        said = Refused(ended.reason)
    finally:
        worker.end()
    if isinstance(said, Refused):
        return Figure(way.spelling, way.backend, "", None, None, None, said.reason)
    return Figure(way.spelling, way.backend, said.backend, said.us, said.spread_us, said.torch_us, None, said.first_ms)


def _line(figure: Figure) -> str:
    name = f"{figure.spelling} {figure.requested}".strip()
    return f"{name}: {figure.reason}" if figure.us is None else f"{name}: {figure.us:.2f} µs"
