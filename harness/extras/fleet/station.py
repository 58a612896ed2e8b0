"""A station: one GPU, the host it is in, and the versions there; whether its figures belong to the same notebook.

``python -m harness.extras.fleet.station KEY USES_DEVICE`` prints that of a process.
"""

import hashlib
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.errors import TilebenchError, UsageError
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.hashes import judge_sha256
from harness.machine.nvml import Device, compute_processes
from harness.machine.repository import code, short
from harness.records.base import Environment
from harness.records.environment import describe

CODE: Final = {
    "harness": ("*.py", "*.toml"),
    "kernels": ("*.py", "*.json"),
    "baselines": ("*.py",),
    "operators": ("*.py",),
}
COMMON: Final = {  # what all must have that measure for one board, and its name for a person
    "driver": "NVIDIA driver",
    "python": "Python",
    "torch": "torch",
    "tilelang": "TileLang",
    "tvm_ffi": "TVM FFI",
    "image": "image",
}
CLOCK_S: Final = 300.0  # hosts may answer so late
OPERATOR: Final = "matmul"  # environments are compared for it; the revision covers the others


@dataclass(frozen=True, slots=True)
class Station:
    """``fault`` says why its GPU cannot be used; then there are no versions."""

    host: str
    code_sha256: str
    device: Device | None = None
    environment: Environment | None = None
    fault: str | None = None
    clock_s: float = 0.0  # since 1970, when it answered

    @property
    def chip(self) -> str:
        """What its records are told apart by."""
        return self.device.uuid if self.device else ""

    def environment_of(self, root: Path, gpu: Gpu, operator: str) -> Environment:
        """Where it measures an operator's problems; its code is that of ``root``."""
        assert self.environment is not None
        return msgspec.structs.replace(self.environment, judge_sha256=judge_sha256(root, operator, gpu))

    @property
    def name(self) -> str:
        return self.host if self.device is None else f"{self.host} GPU {self.device.index}"


def here(root: Path, gpu_key: str, *, uses_device: bool = True) -> Station:
    """The station of this process."""
    host, code = socket.gethostname(), code_sha256(root)
    try:
        gpu, device = gpus.resolve(gpu_key) if uses_device else (gpus.find(gpu_key), None)
        if device is not None and (others := compute_processes(device)):
            return Station(host, code, device, fault=f"in use by process {', '.join(map(str, others))}")
        return Station(host, code, device, describe(root, gpu, device, OPERATOR), clock_s=time.time())
    except UsageError as error:  # what it advises is for one GPU
        return Station(host, code, fault=str(error).partition("; ")[0])
    except TilebenchError as error:
        return Station(host, code, fault=str(error))


def code_sha256(root: Path) -> str:
    """The revision: a hash of all code that a run uses."""
    parts = ((base / part, form) for base in {code(root), root} for part, forms in CODE.items() for form in forms)
    paths = {path for folder, form in parts for path in folder.rglob(form)}
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{short(root, path)}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def unfit(own: Station, others: Iterable[Station]) -> dict[Station, str]:
    """Find the stations that cannot be used, each with the reason.

    Revision and TileLang must be those of ``own``, the driver's, and all else that of most. Without an environment of
    ``own`` TileLang must be that of most, too.
    """
    listed = list(others)
    found = {each: reason for each in listed if (reason := _difference(own, each))}
    for name, called in COMMON.items():
        versions = {each: getattr(each.environment, name) for each in listed if each not in found}
        for most, _ in Counter(versions.values()).most_common(1):
            more = {each: theirs for each, theirs in versions.items() if theirs != most}
            found |= {each: f"its {called} is {theirs}, that of most is {most}" for each, theirs in more.items()}
    return found


def off(now_s: float, others: Iterable[Station]) -> dict[str, str]:
    """The hosts with another clock than the driver's, each with a sentence. Records are ordered by their files."""
    ahead = {each.host: each.clock_s - now_s for each in others if each.clock_s}
    return {
        host: f"its clock is {abs(by_s) / 60:.0f} minutes {'ahead of' if by_s > 0 else 'behind'} the driver's; set it"
        for host, by_s in ahead.items()
        if abs(by_s) > CLOCK_S
    }


def _difference(own: Station, other: Station) -> str | None:
    if other.fault is not None or other.environment is None:
        return other.fault or "it says nothing of itself"
    if other.code_sha256 != own.code_sha256:
        return "it has another revision of tilebench, or other kernels, baselines or operators; update it"
    if own.environment is not None and other.environment.tilelang != own.environment.tilelang:
        return f"its TileLang is {other.environment.tilelang}, and the driver's is {own.environment.tilelang}"
    return None


def main() -> None:
    key, uses_device = sys.argv[1:]
    sys.stdout.buffer.write(msgspec.json.encode(here(Tree.here().root, key, uses_device=bool(int(uses_device)))))


if __name__ == "__main__":
    main()
