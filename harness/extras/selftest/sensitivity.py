"""Sensitivity: measure a kernel and its slowed twin in turns; count the pairs that ``compare`` tells apart."""

from itertools import pairwise
from statistics import median
from typing import Final

import msgspec

from harness.boards.comparison import Change, Interval, quotient
from harness.catalog.names import name_of
from harness.catalog.tree import Tree
from harness.extras.selftest.scratch_tree import sample_judge
from harness.judge.candidate import Settings
from harness.judge.facts.gpu import Gpu
from harness.machine.nvml import Device
from harness.machine.progress import Reporter
from harness.records.results import Measurement

SAMPLE: Final = "tests/samples/slowed/waits.py"
UNSLOWED: Final = "wait=0"
DIFFERENT: Final = (Change.FASTER, Change.SLOWER)


class SensitivityFinding(msgspec.Struct, frozen=True):
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


def compare(
    tree: Tree, gpu: Gpu, device: Device | None, shape: str, slower_by: float, turns: int, reporter: Reporter
) -> SensitivityFinding:
    """Measure both in ``turns`` turns and compare them as ``tilebench compare`` does; records nothing."""
    with sample_judge(tree, gpu, device, shape, Settings.of(gpu)) as judge:
        kernel, twin = (judge.folder / f"{name_of(*each)}.py" for each in ((1, "as_it_is"), (2, "slowed")))
        source = (tree.root / SAMPLE).read_text()
        kernel.write_text(source)
        reporter.doing(f"{shape}: the kernel as it is")
        wait = _wait(judge.measure(kernel), slower_by)
        twin.write_text(source.replace(UNSLOWED, f"wait={wait}"))
        pairs = []
        for turn in range(turns):
            reporter.doing(f"{shape}: turn {turn + 1} of {turns}")
            pairs.append((judge.measure(kernel), judge.measure(twin)))
    slowed = tuple(quotient(honest, late, same_chip=True) for honest, late in pairs)
    turns_in_a_row = list(pairwise(pairs))
    again = tuple(quotient(a[side], b[side], same_chip=True) for side in (0, 1) for a, b in turns_in_a_row)
    return SensitivityFinding(
        problem=shape,
        slower_by=slower_by,
        wait=wait,
        slowed=slowed,
        again=again,
        called_slower=sum(each.verdict() is Change.SLOWER for each in slowed),
        called_different=sum(each.verdict() in DIFFERENT for each in again),
        seen=median(each.quotient for each in slowed),
    )


def line(finding: SensitivityFinding) -> str:
    return (
        f"{finding.problem}: {finding.called_slower} of {len(finding.slowed)} pairs that differ by "
        f"{finding.slower_by:.1%} are called slower (seen: {1 / finding.seen - 1:.2%}); "
        f"{finding.called_different} of {len(finding.again)} equal pairs are called different"
    )


def _wait(measured: Measurement, slower_by: float) -> int:
    """The wait that slows a kernel by a part of its time: cycles at the measured clock, on a CPU nanoseconds."""
    wait_ns = measured.time_ms * 1e6 * slower_by
    clock_mhz = measured.telemetry.sm_clock_mhz if measured.telemetry else None
    return round(wait_ns * clock_mhz / 1e3) if clock_mhz else round(wait_ns)
