"""Faults that an iteration can cause on a GPU, caused for real: each is named, the others are done, nothing is left."""

import json
import shutil
import subprocess
import time
from typing import Any, Final

import msgspec
from tabulate import tabulate

from harness.catalog.device_kind import GPU_KIND
from harness.catalog.tree import Tree
from harness.errors import InfrastructureError, UsageError
from harness.extras.selftest.adversaries import constants
from harness.extras.selftest.scratch import checkout, processes, start
from harness.extras.selftest.scratch_tree import LIBRARY
from harness.judge.facts.gpu import Gpu
from harness.machine.nvml import Device, used_bytes
from harness.machine.progress import Reporter
from harness.records.base import Status

SAMPLES: Final = "tests/samples/bad_on_gpu"
HONEST: Final = "compiled_by_itself"
SETTLE_S: Final = 10.0
SLACK_BYTES: Final = 64 << 20  # what the driver may keep, and give back later
LONGEST_S: Final = 580.0


class Fault(msgspec.Struct, frozen=True):
    """What became of one sample, and of the honest iteration after it."""

    name: str
    expected: tuple[str, ...]
    cause: str
    reason: str
    next: str

    @property
    def sound(self) -> bool:
        return self.cause in self.expected and self.next == Status.PASSED


class Finding(msgspec.Struct, frozen=True):
    """All faults of one run, and what it left: processes, and bytes of the device's memory."""

    faults: tuple[Fault, ...]
    left_processes: int
    left_bytes: int
    exit_code: int

    @property
    def sound(self) -> bool:
        left = self.left_processes or self.left_bytes > SLACK_BYTES
        return bool(self.faults) and all(each.sound for each in self.faults) and not left and self.exit_code == 1


def cause(tree: Tree, gpu: Gpu, device: Device | None, shape: str, reporter: Reporter) -> Finding:
    """Bench all faults in one run, an honest iteration after each, in a scratch checkout."""
    if device is None:
        raise UsageError("these are the faults of a GPU; make test causes those of a CPU")
    samples = sorted((tree.root / SAMPLES).glob("*.py"))
    before_bytes = used_bytes(device)
    with checkout(tree, gpu.key, None) as copy:
        folder = copy.folder(gpu.key) / "srcs" / shape / "faults"
        folder.mkdir(parents=True)
        good = tree.root / GPU_KIND.good_samples
        shutil.copy(good / f"{LIBRARY}.py", folder / f"iter000_{LIBRARY}.py")
        for number, path in enumerate(samples):
            shutil.copy(path, folder / f"iter{2 * number + 1:03d}_{path.stem}.py")
            honest = (good / f"{HONEST}.py").read_text() + f"\n# The one after {path.stem}.\n"
            (folder / f"iter{2 * number + 2:03d}_{HONEST}.py").write_text(honest)
        reporter.doing(f"{len(samples)} faults, and as many honest iterations")
        log = copy.root / "output.json"
        command = ("-m", "harness", "bench", "--gpu", gpu.key, "--json", "--budget", "0.3", "--deadline", "10")
        try:
            code = start(copy, *command, output=log, quiet=True).wait(LONGEST_S)
        except subprocess.TimeoutExpired:
            raise InfrastructureError(f"the run was not done after {LONGEST_S:g} s") from None
        records = {record["number"]: record for record in _records(log.read_bytes())}
        until = time.monotonic() + SETTLE_S
        while (left := processes(copy)) and time.monotonic() < until:
            time.sleep(0.1)
        left_bytes = used_bytes(device) - before_bytes
    faults = []
    for number, path in enumerate(samples):
        found, after = records[2 * number + 1], records[2 * number + 2]
        expected = tuple(constants(path)["VERDICT"].split())
        said = after["status"] if after["status"] == Status.PASSED else f"{after['status']}: {after['reason']}"
        faults.append(Fault(path.stem, expected, found["cause"] or found["status"], found["reason"] or "", said))
    return Finding(tuple(faults), left, left_bytes, code)


def table(finding: Finding) -> str:
    """All faults for a person, and what was left."""
    rows = [
        (each.name, each.cause, each.reason, each.next, "" if each.sound else f"must be {' or '.join(each.expected)}")
        for each in finding.faults
    ]
    headers = ("fault", "cause", "reason given", "the one after", "")
    left = f"{finding.left_processes} processes and {max(0, finding.left_bytes) >> 20} MiB of device memory left"
    return f"{tabulate(rows, headers=headers, maxcolwidths=[None, None, 70, 40, None])}\n\n{left}"


def _records(document: bytes) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = json.loads(document)["data"]["records"]
    except (ValueError, TypeError):
        raise InfrastructureError(f"the run gave no document: {document[-300:].decode(errors='replace')}") from None
    return found
