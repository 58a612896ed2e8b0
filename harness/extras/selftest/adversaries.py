"""Adversaries: every trick of the samples, really tried, and the verdict that the judge must give."""

import ast
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import replace as with_fields
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from harness.catalog.device_kind import CPU_KIND, GPU_KIND, kind_of
from harness.catalog.names import name_of
from harness.catalog.tree import Tree
from harness.errors import UsageError
from harness.extras.selftest.believing import believed_ratio
from harness.extras.selftest.scratch_tree import EVIL, HONEST, LIBRARY, SampleJudge, sample_judge
from harness.judge import contract
from harness.judge.candidate import Rejection, Settings
from harness.judge.facts.gpu import Gpu
from harness.judge.plausibility import most_sustained
from harness.machine.nvml import Device
from harness.machine.progress import Reporter
from harness.machine.table import counted, figure, footnotes
from harness.machine.table import table as as_table
from harness.records.base import Cause
from harness.records.results import Measurement
from harness.records.sustained import SustainedMeasurement

WORTHLESS: Final = "worthless"
BOUNDED: Final = "bounded"
PASSED: Final = "passed"
LEAST_NAME, LEAST_REASON = 20, 40  # characters of a column
# The verdicts on samples that answer with blocks; others crash, hang, or cannot be built.
GAINFUL: Final = (Cause.WRONG_RESULT, Cause.INPUT_CHANGED, Cause.FOREIGN_KERNEL, Cause.NOT_PINNED)
SETTINGS: Final = Settings(budget_s=1.0, launch_deadline_s=4.0, build_deadline_s=60.0)
# For samples that can only show their true ratio. On a CPU adversary_grace is wide, and few blocks are enough.
BRIEF: Final = with_fields(SETTINGS, budget_s=0.3, min_placements=3, rounds_per_placement=3, min_launches=9)


class AdversaryFinding(msgspec.Struct, frozen=True):
    """The outcome of one sample. ``contract`` is the contract's complaint; the sample is judged as if it had passed it.

    ``gain`` is the sample's ratio over the honest kernel's. For a rejected sample it uses the rejected ratio, or
    that of a few blocks without a comparison of results; None where there are no such blocks.
    """

    name: str
    trick: int
    idea: str
    expected: tuple[str, ...]
    verdict: str  # a cause, or "worthless", "bounded", "believed", "passed"
    reason: str
    contract: str | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    tree_changed: bool
    gain: float | None = None

    @property
    def sound(self) -> bool:
        return self.verdict in self.expected and not self.tree_changed


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample: a trick with its number on the list, or an honest control with number 0."""

    path: Path
    trick: int
    expected: tuple[str, ...]
    regime: str = "paired"


def samples(root: Path, *, cpu: bool, only: str = "") -> list[Sample]:
    """The samples for this kind of device: the honest controls, then the tricks in the list's order.

    ``only`` holds parts of names, separated by commas; raises UsageError for a part that no name holds.
    """
    found = []
    kind = CPU_KIND if cpu else GPU_KIND
    for path in [*sorted((root / kind.good_samples).glob("*.py")), *sorted((root / EVIL).glob("*.py"))]:
        own = constants(path)
        if path.stem == HONEST or kind.torch_device not in own.get("RUNS_ON", ("cpu", "cuda")):
            continue
        expected = tuple(own.get("VERDICT", PASSED).split())
        found.append(Sample(path, int(own.get("TRICK", 0)), expected, own.get("REGIME", "paired")))
    if not found:
        raise UsageError(
            f"no samples under {root / EVIL}; the adversaries are part of the repository, not of a package"
        )
    parts = [part.strip() for part in only.split(",")]
    for part in parts:
        if not any(part in each.path.stem for each in found) or (only and not part):
            folders = f"{EVIL} and {kind.good_samples}"
            raise UsageError(f"--only '{part}': no sample for this device has such a name; they are in {folders}")
    chosen = [each for each in found if any(part in each.path.stem for part in parts)]
    return sorted(chosen, key=lambda sample: sample.trick)


def confront(
    tree: Tree,
    gpu: Gpu,
    device: Device | None,
    shape: str,
    chosen: list[Sample],
    reporter: Reporter,
    *,
    gains: bool = True,
) -> Iterator[AdversaryFinding]:
    """Judge each sample in a scratch tree as if it had passed the contract; records nothing.

    Without ``gains`` no sample is measured again to see what it would have gained.
    """
    with sample_judge(tree, gpu, device, shape, SETTINGS) as judge:
        control = judge.folder / f"{name_of(1, HONEST)}.py"
        control.write_text("from kernels.honest import program as build\n")
        honest = judge.measure(control)
        reporter.finished(f"the honest kernel: {honest.ratio:.4f} of the library", advance=False)
        for number, sample in enumerate(chosen, start=2):
            reporter.doing(f"trick {sample.trick}: {sample.path.stem}")
            library = sample.path.stem == LIBRARY
            path = judge.folder / f"{name_of(0 if library else number, sample.path.stem)}.py"
            shutil.copy(sample.path, path)
            brief = gpu.is_cpu and sample.expected[0] in (PASSED, WORTHLESS)
            finding = _confront(sample, with_fields(judge, settings=BRIEF) if brief else judge, path, honest.ratio_high)
            ratio = finding.gain
            if ratio is None and gains and finding.verdict in GAINFUL:
                ratio = believed_ratio(judge, path)
            finding = replace(finding, gain=None if ratio is None else round(ratio / honest.ratio, 4))
            if not library:  # all other samples name the library's call as their parent
                path.unlink()
            reporter.finished(line(finding))
            yield finding


def line(finding: AdversaryFinding) -> str:
    how = "" if finding.ratio is None else f", ratio {finding.ratio:.4f}"
    how += "" if finding.ratio or finding.gain is None else f", believed {finding.gain:.3g}x as fast as the honest one"
    mark = "sound" if finding.sound else "UNSOUND"
    return f"{mark}  {finding.name}: {finding.verdict}{how}{': ' if finding.reason else ''}{finding.reason}"


def table(findings: list[AdversaryFinding]) -> str:
    """A row for each sample, below it what is unsound, and the count; the lines before it gave the reasons."""
    shown = as_table(
        findings,
        {
            "trick": lambda each: each.trick or "control",
            "sample": lambda each: each.name,
            "verdict": lambda each: each.verdict,
            "true ratio": lambda each: figure(each.ratio, ".4f"),
            "gain": lambda each: figure(each.gain, ".3g"),
            "contract": lambda each: "refused" if each.contract else "",
            "reason given": lambda each: each.reason,
        },
        right=("true ratio", "gain"),
        optional=("reason given",),
        wrap={"reason given": LEAST_REASON},
        cut={"sample": LEAST_NAME},
    )
    unsound = [each for each in findings if not each.sound]
    notes = footnotes((each.name, [f"UNSOUND: must be {' or '.join(each.expected)}"]) for each in unsound)
    tricks = counted(sum(each.trick > 0 for each in findings), "trick")
    controls = counted(sum(not each.trick for each in findings), "control")
    return "\n\n".join(filter(None, (shown, notes, f"{tricks} and {controls}: {len(unsound)} unsound")))


def _accepted(sample: Sample, measured: Measurement | SustainedMeasurement, honest: float, gpu: Gpu) -> str:
    """The verdict on a sample that was not rejected.

    A gain in sustained phases is bounded by the clocks, and what calls the library by the library's speed. Below the
    power limit a sustained ratio does not count.
    """
    if sample.trick == 0:
        return PASSED
    grace = 1 + kind_of(gpu).adversary_grace
    if measured.ratio <= honest * grace or (isinstance(measured, SustainedMeasurement) and not measured.counts):
        return WORTHLESS
    most = most_sustained(measured, honest) if isinstance(measured, SustainedMeasurement) else grace
    return BOUNDED if BOUNDED in sample.expected and measured.ratio <= most else "believed"


def _confront(sample: Sample, judge: SampleJudge, path: Path, honest: float) -> AdversaryFinding:
    try:
        contract.check(judge.tree.parse(path))
        refused = None
    except contract.Breach as breach:
        refused = str(breach)
    before = _fingerprint(judge.tree.root)
    outcome: Measurement | SustainedMeasurement | Rejection
    outcome, ratio = judge.judge(path)
    if isinstance(outcome, Measurement) and sample.regime == "sustained":
        outcome = judge.sustained(path, outcome)
        ratio = outcome.ratio if isinstance(outcome, SustainedMeasurement) else None
    if not isinstance(outcome, Rejection):
        verdict, reason = _accepted(sample, outcome, honest, judge.gpu), ""
    else:
        verdict, reason = outcome.cause.value, outcome.reason
    return AdversaryFinding(
        name=sample.path.stem,
        trick=sample.trick,
        idea=ast.get_docstring(ast.parse(sample.path.read_bytes())) or "",
        expected=sample.expected,
        verdict=verdict,
        reason=reason,
        contract=refused,
        **{name: getattr(outcome, name, None) for name in ("ratio", "ratio_low", "ratio_high")},
        tree_changed=_fingerprint(judge.tree.root) != before,
        gain=ratio,
    )


def constants(path: Path) -> dict[str, Any]:
    """The constants TRICK, RUNS_ON, REGIME and VERDICT of a sample."""
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(path.read_bytes()).body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id in ("TRICK", "RUNS_ON", "REGIME", "VERDICT")
    }


def _fingerprint(root: Path) -> dict[str, tuple[int, int]]:
    """Size and time of change of every file of a tree."""
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in root.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
