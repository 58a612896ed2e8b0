"""Adversaries: every trick of the samples, really tried, with the verdict that it must get."""

import ast
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from tabulate import tabulate

from harness.catalog.device_kind import CPU_KIND, GPU_KIND, kind_of
from harness.catalog.tree import Tree
from harness.errors import UsageError
from harness.extras.selftest.scratch_tree import EVIL, HONEST, LIBRARY, Court, court
from harness.judge import contract
from harness.judge.candidate import Rejection, Settings
from harness.judge.facts.gpu import Gpu
from harness.machine.nvml import Device
from harness.machine.progress import Reporter
from harness.records.results import Measurement

WORTHLESS: Final = "worthless"
PASSED: Final = "passed"
SETTINGS: Final = Settings(budget_s=1.0, launch_deadline_s=4.0, build_deadline_s=60.0)


class Finding(msgspec.Struct, frozen=True):
    """What became of one sample. ``contract`` is what the check of its source alone says; the judge did not use it."""

    name: str
    trick: int
    idea: str
    expected: tuple[str, ...]
    verdict: str  # a cause, or worthless, or passed
    reason: str
    contract: str | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    tree_changed: bool

    @property
    def sound(self) -> bool:
        return self.verdict in self.expected and not self.tree_changed


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample: a trick with its number on the list, or an honest control, which has number 0."""

    path: Path
    trick: int
    expected: tuple[str, ...]


def samples(root: Path, *, cpu: bool, only: str = "") -> list[Sample]:
    """The samples for this kind of device: the honest controls, then the tricks in the list's order.

    ``only``: those whose name holds one of these parts, separated by commas; raises UsageError of a part in none.
    """
    found = []
    kind = CPU_KIND if cpu else GPU_KIND
    for path in [*sorted((root / kind.good_samples).glob("*.py")), *sorted((root / EVIL).glob("*.py"))]:
        terms = constants(path)
        if path.stem == HONEST or kind.torch_device not in terms.get("RUNS_ON", ("cpu", "cuda")):
            continue
        found.append(Sample(path, int(terms.get("TRICK", 0)), tuple(terms.get("VERDICT", PASSED).split())))
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
    tree: Tree, gpu: Gpu, device: Device | None, shape: str, chosen: list[Sample], reporter: Reporter
) -> Iterator[Finding]:
    """Judge each sample as if it had passed the contract, in a scratch checkout; records nothing."""
    with court(tree, gpu, device, shape, SETTINGS) as judge:
        control = judge.folder / "iter001_honest.py"
        control.write_text("from kernels.honest import program as build\n")
        honest = judge.measure(control)
        fair = honest.ratio_high * (1 + kind_of(gpu).adversary_grace)
        reporter.finished(f"the honest kernel: {honest.ratio:.4f} of the library", advance=False)
        for number, sample in enumerate(chosen, start=2):
            reporter.doing(f"trick {sample.trick}: {sample.path.stem}")
            library = sample.path.stem == LIBRARY
            path = judge.folder / (f"iter000_{LIBRARY}.py" if library else f"iter{number:03d}_{sample.path.stem}.py")
            shutil.copy(sample.path, path)
            finding = _confront(sample, judge, path, fair)
            if not library:  # every other one names it as its parent
                path.unlink()
            reporter.finished(line(finding))
            yield finding


def line(finding: Finding) -> str:
    """One finding for a person."""
    how = "" if finding.ratio is None else f", ratio {finding.ratio:.4f}"
    mark = "sound" if finding.sound else "UNSOUND"
    return f"{mark}  {finding.name}: {finding.verdict}{how}{': ' if finding.reason else ''}{finding.reason}"


def table(findings: list[Finding]) -> str:
    """All findings for a person."""
    return tabulate(
        [
            (
                each.trick or "control",
                each.name,
                each.verdict,
                "" if each.ratio is None else f"{each.ratio:.4f}",
                "refused" if each.contract else "",
                each.reason,
                "" if each.sound else f"UNSOUND: must be {' or '.join(each.expected)}",
            )
            for each in findings
        ],
        headers=("trick", "sample", "verdict", "true ratio", "contract", "reason given", ""),
        disable_numparse=True,
        maxcolwidths=[None, None, None, None, None, 70, None],
    )


def _confront(sample: Sample, judge: Court, path: Path, fair: float) -> Finding:
    try:
        contract.check(judge.tree.parse(path))
        refused = None
    except contract.Breach as breach:
        refused = str(breach)
    before = _fingerprint(judge.tree.root)
    outcome = judge.judge(path)
    measured = outcome if isinstance(outcome, Measurement) else None
    if measured is not None:
        verdict = PASSED if sample.trick == 0 else WORTHLESS if measured.ratio <= fair else "believed"
        reason = ""
    else:
        assert isinstance(outcome, Rejection)
        verdict, reason = outcome.cause.value, outcome.reason
    return Finding(
        name=sample.path.stem,
        trick=sample.trick,
        idea=ast.get_docstring(ast.parse(sample.path.read_bytes())) or "",
        expected=sample.expected,
        verdict=verdict,
        reason=reason,
        contract=refused,
        ratio=measured.ratio if measured else None,
        ratio_low=measured.ratio_low if measured else None,
        ratio_high=measured.ratio_high if measured else None,
        tree_changed=_fingerprint(judge.tree.root) != before,
    )


def constants(path: Path) -> dict[str, Any]:
    """What a sample says of itself: TRICK, RUNS_ON, VERDICT."""
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(path.read_bytes()).body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id in ("TRICK", "RUNS_ON", "VERDICT")
    }


def _fingerprint(root: Path) -> dict[str, tuple[int, int]]:
    """Every file of a checkout, with its size and time of change."""
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in root.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
