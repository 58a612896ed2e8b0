"""Faults that an iteration can cause on a GPU, caused for real, each followed by an honest iteration."""

import json
import shutil
from typing import Any, Final

import msgspec

from harness.catalog.device_kind import kind_of
from harness.catalog.names import name_of
from harness.catalog.tree import Tree
from harness.errors import InfrastructureError, UsageError
from harness.extras.scratch_tree import copied_tree
from harness.extras.selftest.adversaries import constants
from harness.extras.selftest.commands import code_of, processes_left, started
from harness.extras.selftest.scratch_tree import sample_folder
from harness.judge.facts.gpu import Gpu
from harness.machine.nvml import Device, used_bytes
from harness.machine.progress import Reporter
from harness.machine.table import table as as_table
from harness.records.base import Status

SAMPLES: Final = "tests/samples/bad_on_gpu"
HONEST: Final = "compiled_by_itself"
WAIT_FOR_PROCESSES_S: Final = 10.0
SLACK_BYTES: Final = 64 << 20  # the driver may keep so much for a while
LONGEST_S: Final = 580.0


class Fault(msgspec.Struct, frozen=True):
    """The outcome of one sample; ``next`` is that of the honest iteration after it."""

    name: str
    expected: tuple[str, ...]
    cause: str
    reason: str
    next: str

    @property
    def sound(self) -> bool:
        return self.cause in self.expected and self.next == Status.PASSED


class FaultFinding(msgspec.Struct, frozen=True):
    """All faults of one run, and what the run left: processes, and bytes of the device's memory."""

    faults: tuple[Fault, ...]
    left_processes: int
    left_bytes: int
    exit_code: int

    @property
    def sound(self) -> bool:
        left = self.left_processes or self.left_bytes > SLACK_BYTES
        return bool(self.faults) and all(each.sound for each in self.faults) and not left and self.exit_code == 1


def cause(tree: Tree, gpu: Gpu, device: Device | None, shape: str, reporter: Reporter) -> FaultFinding:
    """Bench all faults in one run in a scratch tree."""
    if device is None:
        raise UsageError("these are the faults of a GPU; make test causes those of a CPU")
    samples = sorted((tree.root / SAMPLES).glob("*.py"))
    before_bytes = used_bytes(device)
    with copied_tree(tree) as copy:
        folder = sample_folder(tree, copy, gpu, shape)
        honest = (tree.root / kind_of(gpu).good_samples / f"{HONEST}.py").read_text()
        for number, path in enumerate(samples):
            shutil.copy(path, folder / f"{name_of(2 * number + 1, path.stem)}.py")
            after = folder / f"{name_of(2 * number + 2, HONEST)}.py"
            after.write_text(f"{honest}\n# The one after {path.stem}.\n")
        reporter.doing(f"{len(samples)} faults, and as many honest iterations")
        log = copy.root / "output.json"
        options = ("--no-opponents", "--json", "--budget", "0.3", "--deadline", "10")
        command = ("-m", "harness", "bench", "--gpu", gpu.key, *options)
        with started(copy, *command, output=log, quiet=True) as process:
            code = code_of(process, LONGEST_S)
        records = {record["number"]: record for record in _records(log.read_bytes())}
        left = processes_left(copy, WAIT_FOR_PROCESSES_S)
        left_bytes = used_bytes(device) - before_bytes
    faults = []
    for number, path in enumerate(samples):
        found, follower = records[2 * number + 1], records[2 * number + 2]
        expected = tuple(constants(path)["VERDICT"].split())
        status: str = follower["status"]
        said = status if status == Status.PASSED else f"{status}: {follower['reason']}"
        faults.append(Fault(path.stem, expected, found["cause"] or found["status"], found["reason"] or "", said))
    return FaultFinding(tuple(faults), left, left_bytes, code)


def table(finding: FaultFinding) -> str:
    body = as_table(
        finding.faults,
        {
            "fault": lambda each: each.name,
            "cause": lambda each: each.cause,
            "reason given": lambda each: each.reason,
            "the one after": lambda each: each.next,
            "": lambda each: "" if each.sound else f"must be {' or '.join(each.expected)}",
        },
    )
    left = f"{finding.left_processes} processes and {max(0, finding.left_bytes) >> 20} MiB of device memory left"
    return f"{body}\n\n{left}"


def _records(document: bytes) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = json.loads(document)["data"]["records"]
    except (ValueError, TypeError):
        raise InfrastructureError(f"the run gave no document: {document[-300:].decode(errors='replace')}") from None
    return found
