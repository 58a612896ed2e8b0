"""A scratch tree for samples: it holds the library and the honest kernel, and judges one source after another."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.boards.sustained import outcome_of
from harness.catalog.device_kind import kind_of
from harness.catalog.names import name_of
from harness.catalog.tree import Tree
from harness.errors import InfrastructureError
from harness.extras.scratch_tree import copied_tree
from harness.judge import fault_attribution
from harness.judge.candidate import Candidate, Referees, Rejection, Settings
from harness.judge.facts.gpu import Gpu
from harness.judge.pipeline import build, measured
from harness.judge.processes import start_forkserver
from harness.judge.sustaining import SustainedSettings
from harness.machine.nvml import Device
from harness.records.results import Measurement
from harness.records.sustained import SustainedMeasurement
from harness.runs.run import alone

EVIL: Final = "tests/samples/evil"
HONEST: Final = "honest"
LIBRARY: Final = "torch_matmul"
SHORT_PHASES: Final = SustainedSettings(budget_s=1.0, min_pairs=2, settle_s=0.1, counted_s=0.15)


@dataclass(frozen=True, slots=True)
class SampleJudge:
    """Judges sources without recording anything.

    ``folder`` takes the sources. They may import ``kernels.honest``, and name iter000 as their parent.
    """

    tree: Tree
    folder: Path
    gpu: Gpu
    device: Device | None
    settings: Settings
    referees: Referees

    def judge(self, path: Path) -> tuple[Measurement | Rejection, float | None]:
        """Judge a source as if it had passed the contract; and the measured ratio, which a rejection may come after."""
        candidate = self.enter(path)
        try:
            found = measured(candidate)
        except Rejection as rejection:
            return rejection, candidate.measurement.ratio if candidate.measurement else None
        return found, found.ratio

    def sustained(self, path: Path, paired: Measurement) -> SustainedMeasurement | Rejection:
        """Judge a source that passed in the sustained regime, in phases short enough for a self-test."""
        return outcome_of(self.enter(path), paired, SHORT_PHASES, build)

    def enter(self, path: Path, referees: Referees | None = None) -> Candidate:
        judges = referees or self.referees
        return Candidate(self.tree.parse(path), self.tree.root, self.gpu, self.device, self.settings, judges)

    def measure(self, path: Path) -> Measurement:
        """Measure an honest source; raises InfrastructureError where the judge rejects it."""
        outcome, _ = self.judge(path)
        if isinstance(outcome, Rejection) and fault_attribution.is_retried(outcome.cause, self.gpu):
            outcome, _ = self.judge(path)
        if not isinstance(outcome, Measurement):
            raise InfrastructureError(f"the honest kernel itself is rejected: {outcome}")
        return outcome


def sample_folder(tree: Tree, copy: Tree, gpu: Gpu, shape: str) -> Path:
    """A folder for samples in a scratch tree, with the library's call as iter000."""
    folder = copy.sources(gpu.key, shape, "samples")
    folder.mkdir(parents=True)
    shutil.copy(tree.root / kind_of(gpu).good_samples / f"{LIBRARY}.py", folder / f"{name_of(0, LIBRARY)}.py")
    return folder


@contextmanager
def sample_judge(tree: Tree, gpu: Gpu, device: Device | None, shape: str, settings: Settings) -> Iterator[SampleJudge]:
    """A judge of samples in a scratch tree, which is removed afterwards."""
    with alone(tree, gpu, device), copied_tree(tree) as copy:
        start_forkserver(gpu, device)
        folder = sample_folder(tree, copy, gpu, shape)
        shutil.copy(tree.root / EVIL / f"{HONEST}.py", copy.root / "kernels" / f"{HONEST}.py")
        referees = Referees(copy.root, gpu)
        try:
            yield SampleJudge(copy, folder, gpu, device, settings, referees)
        finally:
            referees.leave()
