"""A court: a scratch checkout with the library and the honest kernel, where one source after another is judged."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.catalog.device_kind import kind_of
from harness.catalog.tree import Tree
from harness.errors import InfrastructureError
from harness.extras.selftest.scratch import checkout
from harness.judge import fault_attribution
from harness.judge.candidate import Candidate, Referees, Rejection, Settings
from harness.judge.facts.gpu import Gpu
from harness.judge.pipeline import measured
from harness.judge.processes import start_forkserver
from harness.machine.nvml import Device
from harness.records.results import Measurement

EVIL: Final = "tests/samples/evil"
HONEST: Final = "honest"
LIBRARY: Final = "torch_matmul"


@dataclass(frozen=True, slots=True)
class Court:
    """``folder`` takes the sources, which may import ``kernels.honest`` and name iter000 as their parent."""

    tree: Tree
    folder: Path
    gpu: Gpu
    device: Device | None
    settings: Settings
    referees: Referees

    def judge(self, path: Path) -> Measurement | Rejection:
        """As if it had passed the contract; records nothing."""
        iteration = self.tree.parse(path)
        candidate = Candidate.enter(iteration, self.tree.root, self.gpu, self.device, self.settings, self.referees)
        try:
            return measured(candidate)
        except Rejection as rejection:
            return rejection

    def measure(self, path: Path) -> Measurement:
        """What must pass; raises InfrastructureError where it does not."""
        outcome = self.judge(path)
        if isinstance(outcome, Rejection) and fault_attribution.is_retried(outcome.cause, self.gpu):
            outcome = self.judge(path)
        if not isinstance(outcome, Measurement):
            raise InfrastructureError(f"the honest kernel itself is rejected: {outcome}")
        return outcome


@contextmanager
def court(tree: Tree, gpu: Gpu, device: Device | None, shape: str, settings: Settings) -> Iterator[Court]:
    start_forkserver(gpu, device)
    with checkout(tree, gpu.key, None) as copy:
        folder = copy.folder(gpu.key) / "srcs" / shape / "samples"
        folder.mkdir(parents=True)
        shutil.copy(tree.root / EVIL / f"{HONEST}.py", copy.root / "kernels" / f"{HONEST}.py")
        shutil.copy(tree.root / kind_of(gpu).good_samples / f"{LIBRARY}.py", folder / f"iter000_{LIBRARY}.py")
        referees = Referees(copy.root, gpu)
        try:
            yield Court(copy, folder, gpu, device, settings, referees)
        finally:
            referees.leave()
