"""Pace: the wall time of a ladder by the harness, again when nothing changed, and as scripts run by hand."""

import time
from typing import Final

import msgspec

from harness.catalog.tree import Selection, Tree
from harness.errors import InfrastructureError
from harness.extras.selftest.commands import code_of, copied_ladder, started
from harness.machine.progress import Reporter

LONGEST_S: Final = 1800.0


class PaceFinding(msgspec.Struct, frozen=True):
    """Wall times of one problem's ladder."""

    problem: str
    iterations: int
    bench_s: float
    again_s: float
    by_hand_s: float

    @property
    def share(self) -> float:
        """The harness's time over that of the scripts run one after another."""
        return self.bench_s / self.by_hand_s


def compare(tree: Tree, gpu: str, shape: str, reporter: Reporter) -> PaceFinding:
    """Bench a problem's ladder in a scratch tree, again, and then run each of its scripts by hand."""
    with copied_ladder(tree, gpu, shape) as copy:
        iterations, _ = copy.scan(gpu, Selection(shape=shape))
        command = ("-m", "harness", "bench", "--gpu", gpu, "--shape", shape, "--no-opponents")
        reporter.doing(f"{shape}: the ladder by the harness")
        bench_s = _seconds(copy, *command)
        reporter.doing(f"{shape}: again, nothing changed")
        again_s = _seconds(copy, *command)
        by_hand_s = 0.0
        for iteration in iterations:
            reporter.doing(f"{shape}: {iteration.name} by hand")
            by_hand_s += _seconds(copy, str(iteration.path))
    return PaceFinding(shape, len(iterations), bench_s, again_s, by_hand_s)


def line(finding: PaceFinding) -> str:
    return (
        f"{finding.problem}: {finding.iterations} iterations in {finding.bench_s:.1f} s, "
        f"again in {finding.again_s:.1f} s, as scripts by hand in {finding.by_hand_s:.1f} s: "
        f"{finding.share:.0%} of that"
    )


def _seconds(tree: Tree, *arguments: str) -> float:
    began = time.monotonic()
    with started(tree, *arguments) as process:
        code = code_of(process, LONGEST_S)
    if code not in (0, 1):
        raise InfrastructureError(f"'{' '.join(arguments)}' ended with code {code}; run it by hand to see why")
    return time.monotonic() - began
