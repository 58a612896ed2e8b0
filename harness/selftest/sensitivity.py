"""Sensitivity: a kernel and the same kernel slowed down on purpose, in turns; which pairs does compare tell apart?"""

import shutil
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from harness.candidate import Candidate, Referees, Rejection, Settings, default_budget_s
from harness.comparison import Interval, Verdict, quotient
from harness.errors import InfrastructureError
from harness.gpus import Gpu
from harness.nvml import Device
from harness.pipeline import bench, build, verify
from harness.processes import start_forkserver
from harness.progress import Reporter
from harness.records import Measurement
from harness.selftest.adversaries import EVIL, GOOD, HONEST, LIBRARY
from harness.selftest.scratch import checkout
from harness.tree import Tree

SAMPLE: Final = "tests/samples/slowed/waits.py"
UNSLOWED: Final = "wait=0"
DIFFERENT: Final = (Verdict.FASTER, Verdict.SLOWER)


class Finding(msgspec.Struct, frozen=True):
    """``slowed`` compares each kernel with its slowed twin, ``again`` with itself in the next turn.

    ``wait`` is in cycles of an SM, on a CPU in nanoseconds; ``seen`` is the median quotient of the slowed pairs.
    """

    problem: str
    slower_by: float
    wait: int
    slowed: tuple[Interval, ...]
    again: tuple[Interval, ...]
    called_slower: int
    called_different: int
    seen: float


@dataclass(slots=True)
class _Bench:
    tree: Tree
    gpu: Gpu
    device: Device | None
    referees: Referees

    def measure(self, path: Path) -> Measurement:
        settings = Settings(default_budget_s(self.gpu))
        candidate = Candidate.enter(
            self.tree.parse(path), self.tree.root, self.gpu, self.device, settings, self.referees
        )
        try:
            build(candidate)
            verify(candidate)
            bench(candidate)
        except Rejection as rejection:
            raise InfrastructureError(f"{candidate.iteration}: an honest kernel was rejected: {rejection}") from None
        finally:
            candidate.leave()
        assert candidate.measurement is not None
        return candidate.measurement


def compare(
    tree: Tree, gpu: Gpu, device: Device | None, shape: str, slower_by: float, turns: int, reporter: Reporter
) -> Finding:
    """Measure both in ``turns`` turns and compare as ``tilebench compare`` does; records nothing."""
    start_forkserver(gpu, device)
    with checkout(tree, gpu.key, None) as copy:
        folder = copy.folder(gpu.key) / "srcs" / shape / "slowed"
        folder.mkdir(parents=True)
        shutil.copy(tree.root / EVIL / f"{HONEST}.py", copy.root / "kernels" / f"{HONEST}.py")
        shutil.copy(tree.root / GOOD[gpu.is_cpu] / f"{LIBRARY}.py", folder / f"iter000_{LIBRARY}.py")
        as_it_is, twin = folder / "iter001_as_it_is.py", folder / "iter002_slowed.py"
        source = (tree.root / SAMPLE).read_text()
        as_it_is.write_text(source)
        judged = _Bench(copy, gpu, device, Referees(copy.root, gpu))
        try:
            reporter.doing(f"{shape}: the kernel as it is")
            wait = _wait(judged.measure(as_it_is), slower_by)
            twin.write_text(source.replace(UNSLOWED, f"wait={wait}"))
            pairs = []
            for turn in range(turns):
                reporter.doing(f"{shape}: turn {turn + 1} of {turns}")
                pairs.append((judged.measure(as_it_is), judged.measure(twin)))
        finally:
            judged.referees.leave()
    slowed = tuple(quotient(honest, late, same_chip=True) for honest, late in pairs)
    turns_in_a_row = list(pairwise(pairs))
    again = tuple(quotient(a[side], b[side], same_chip=True) for side in (0, 1) for a, b in turns_in_a_row)
    return Finding(
        problem=shape,
        slower_by=slower_by,
        wait=wait,
        slowed=slowed,
        again=again,
        called_slower=sum(each.verdict() is Verdict.SLOWER for each in slowed),
        called_different=sum(each.verdict() in DIFFERENT for each in again),
        seen=median(each.quotient for each in slowed),
    )


def line(finding: Finding) -> str:
    """The finding for a person."""
    return (
        f"{finding.problem}: {finding.called_slower} of {len(finding.slowed)} called slower that are by "
        f"{finding.slower_by:.1%} (seen: {1 / finding.seen - 1:.2%}); "
        f"{finding.called_different} of {len(finding.again)} called different that are the same"
    )


def _wait(measured: Measurement, slower_by: float) -> int:
    """Nanoseconds on a CPU, which has no telemetry; on a GPU cycles of the clock that it ran at."""
    wait_ns = measured.time_ms * 1e6 * slower_by
    clock_mhz = measured.telemetry.sm_clock_mhz if measured.telemetry else None
    return round(wait_ns * clock_mhz / 1e3) if clock_mhz else round(wait_ns)
