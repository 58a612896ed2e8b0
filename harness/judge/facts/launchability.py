"""Which compiled kernels no launch can run on an architecture, and why."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from harness.judge.facts import ptxas
from harness.judge.facts.architectures import (
    MAX_CLUSTER,
    MAX_GRID,
    MAX_REGISTERS,
    MAX_THREADS,
    REGISTERS,
    SmLimits,
    limits,
)
from harness.judge.facts.compilation import Compilation, Launch
from harness.judge.facts.occupancy import registers_of

# Source of all limits: "Technical Specifications per Compute Capability" of the CUDA C++ Programming Guide; of
# registers: cuda_occupancy.h, cudaOccMaxBlocksPerSMRegsLimit; of clusters: the guide's "Thread Block Clusters".


@dataclass(frozen=True, slots=True)
class Footprint:
    """What one launch of a kernel takes; ``limits`` and ``usage`` are None if nothing tells them."""

    launch: Launch
    arch: str
    limits: SmLimits | None
    usage: ptxas.Usage | None

    @property
    def threads(self) -> int:
        x, y, z = self.launch.block
        return x * y * z

    @property
    def shared_bytes(self) -> int:
        return self.launch.dynamic_shared_bytes + (self.usage.static_shared_bytes if self.usage else 0)


def does_not_fit(compilation: Compilation, arch: str) -> str | None:
    """Why a compiled kernel cannot be launched; None if it can, or if nothing tells."""
    usages = ptxas.usage(compilation.log)
    for launch in compilation.launches:
        refused = refusals(Footprint(launch, arch, limits(arch), usages.get(launch.name)))
        if refused:
            return f"{launch.name}: {'; '.join(refused)}"
    return None


def refusals(footprint: Footprint) -> list[str]:
    """Each limit that a launch exceeds, in words."""
    return [sentence for rule in _RULES for sentence in rule(footprint)]


def _threads(footprint: Footprint) -> Iterator[str]:
    if footprint.threads > MAX_THREADS:
        yield f"{footprint.threads:,} threads a block, {MAX_THREADS:,} at most: make threads smaller"


def _shared(footprint: Footprint) -> Iterator[str]:
    if footprint.limits is not None and footprint.shared_bytes > footprint.limits.block_shared_bytes:
        most = footprint.limits.block_shared_bytes
        yield (
            f"{footprint.shared_bytes:,} bytes of shared memory, {footprint.arch} has {most:,} for a block, "
            f"{footprint.shared_bytes - most:,} fewer: take fewer stages or a smaller tile"
        )


def _registers(footprint: Footprint) -> Iterator[str]:
    if footprint.usage is None:
        return
    if footprint.usage.registers > MAX_REGISTERS:
        yield f"{footprint.usage.registers} registers a thread, {MAX_REGISTERS} at most"
    taken = registers_of(footprint.threads, footprint.usage.registers)
    if footprint.threads <= MAX_THREADS and taken > REGISTERS:
        yield (
            f"{footprint.usage.registers} registers x {footprint.threads} threads take {taken:,} registers, "
            f"an SM has {REGISTERS:,}: take fewer threads or a smaller tile"
        )


def _grid(footprint: Footprint) -> Iterator[str]:
    for axis, size, most in zip("xyz", footprint.launch.grid, MAX_GRID, strict=True):
        if not 0 < size <= most:
            yield f"the grid has {size:,} blocks in {axis}, 1 to {most:,} are possible"


def _cluster(footprint: Footprint) -> Iterator[str]:
    x, y, z = footprint.launch.cluster
    if x * y * z > MAX_CLUSTER:
        yield f"a cluster of {x * y * z} blocks, {MAX_CLUSTER} at most"
    for axis, size, unit in zip("xyz", footprint.launch.grid, footprint.launch.cluster, strict=True):
        if unit > 0 and size % unit:
            yield f"the grid's {size} blocks in {axis} are no multiple of the cluster's {unit}"


_RULES: Final = (_threads, _shared, _registers, _grid, _cluster)
