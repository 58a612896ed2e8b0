"""What makes a kernel slow: one rule per cause, each with its source."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from harness.evidence.sass import Code, WarpGroupMma
from harness.judge.facts import architectures
from harness.judge.facts.architectures import MAX_CLUSTER, MMA_SYNC, PORTABLE_CLUSTER
from harness.judge.facts.launchability import Footprint

# Bytes of shared memory that an SM reads in a cycle: 32 banks of 4 (CUDA C++ Programming Guide, "Shared Memory").
SHARED_BYTES_PER_CYCLE: Final = 128
# Multiply-adds of 16-bit numbers that an SM's tensor cores do in a cycle: 989.4 TFLOPS / (132 SMs * 1.83 GHz * 2), from
# the H100 white paper; an 8-bit WGMMA has twice the k, and takes as long.
FMA_PER_CYCLE: Final = 2048
FULL_ENOUGH: Final = 0.9  # of the SMs over all waves; below this the last wave loses a tenth of the time
_MMA_SYNC: Final = ("HMMA.", "QMMA.", "IMMA.")
MANY_WAVES: Final = 10  # the last of them is at most a tenth of the time


@dataclass(frozen=True, slots=True)
class KernelFacts(Footprint):
    """All facts of one kernel; a part is None if its tool is missing."""

    sms: int | None
    input_bits: int
    code: Code | None
    blocks_per_sm: int | None
    limited_by: str | None
    remarks: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    compute_bound: bool = True  # by the problem's roofline, not by what the kernel does

    @property
    def blocks(self) -> int:
        return math.prod(self.launch.grid)

    @property
    def waves(self) -> float | None:
        if not self.sms or not self.blocks_per_sm:
            return None
        return self.blocks / (self.sms * self.blocks_per_sm)

    @property
    def computes(self) -> bool:
        return self.code is not None and bool(self.code.tensor)


def _spills(facts: KernelFacts) -> Iterator[str]:
    """``ptxas --verbose``."""
    usage = facts.usage
    if usage is None:
        return
    if usage.spill_store_bytes or usage.spill_load_bytes:
        yield (
            f"spills: {usage.spill_store_bytes:,} bytes of stores and {usage.spill_load_bytes:,} of loads a thread "
            "in local memory; a smaller tile, more threads or more registers a thread"
        )
    elif usage.stack_bytes:
        yield f"local memory: {usage.stack_bytes:,} bytes a thread, of an array that is indexed at run time"


def _narrow(facts: KernelFacts) -> Iterator[str]:
    """Shared memory's 32 banks of 4 bytes a cycle against the tensor cores' rate."""
    if facts.code is None or not facts.compute_bound:
        return
    for mma in sorted(facts.code.warp_group, key=lambda each: each.n):
        wanted = shared_bytes_per_cycle(mma, facts.input_bits)
        if wanted >= SHARED_BYTES_PER_CYCLE:
            yield (
                f"narrow WGMMA: {mma.m}x{mma.n}x{mma.k} reads {wanted:.0f} bytes of shared memory a cycle, an SM has "
                f"{SHARED_BYTES_PER_CYCLE}; 128 columns or more for each warp group leave room"
            )


def shared_bytes_per_cycle(mma: WarpGroupMma, input_bits: int) -> float:
    """Bytes a cycle that a WGMMA reads of shared memory: B, and A unless it is in registers."""
    rows = mma.n + (0 if mma.a_in_registers else mma.m)
    cycles = mma.m * mma.n * mma.k * input_bits / 16 / FMA_PER_CYCLE
    return rows * mma.k * input_bits / 8 / cycles


def _older_mma(facts: KernelFacts) -> Iterator[str]:
    """Luo et al., Benchmarking and Dissecting the Nvidia Hopper GPU Architecture, 2024."""
    row = architectures.find(facts.arch)
    if row and row.mma != MMA_SYNC and facts.code and any(each.startswith(_MMA_SYNC) for each in facts.code.tensor):
        yield f"{MMA_SYNC} instead of {row.mma}: the tensor cores of {facts.arch} do not reach their rate by it"


def _no_tensor_cores(facts: KernelFacts) -> Iterator[str]:
    """The cubin's instructions."""
    if facts.code and not facts.computes and facts.input_bits <= 16:
        yield "no tensor core instruction in the kernel"


def _waves(facts: KernelFacts) -> Iterator[str]:
    """The grid, the SMs of gpus.toml, and the blocks that fit on one."""
    waves = facts.waves
    if waves is None or facts.sms is None or not facts.computes:
        return
    if facts.blocks <= facts.sms:
        if facts.blocks / facts.sms < FULL_ENOUGH:
            yield f"idle SMs: {facts.blocks} blocks for {facts.sms} SMs; smaller tiles, or K split over blocks"
        return
    whole = math.ceil(waves)
    if 1 < waves < MANY_WAVES and waves / whole < FULL_ENOUGH:
        yield (
            f"wave quantization: {facts.blocks:,} blocks are {waves:.2f} waves of {facts.sms} SMs x "
            f"{facts.blocks_per_sm}, the last one partly empty: {waves / whole:.0%} of the SMs' time is used"
        )


def _portable(facts: KernelFacts) -> Iterator[str]:
    """CUDA C++ Programming Guide, "Thread Block Clusters"."""
    blocks = math.prod(facts.launch.cluster)
    if PORTABLE_CLUSTER < blocks <= MAX_CLUSTER:
        yield f"a cluster of {blocks} blocks is not portable, and may not be schedulable"


def _remarks(facts: KernelFacts) -> Iterator[str]:
    """Ptxas, its own remarks."""
    yield from (f"ptxas: {each}" for each in facts.remarks)


def _conflicts(facts: KernelFacts) -> Iterator[str]:
    """The addresses in the generated source (banks.py)."""
    yield from (f"bank conflicts: {each}" for each in facts.conflicts)


# In the order of the sentences; each rule's docstring says where it comes from.
WARNINGS: Final = (_spills, _remarks, _narrow, _older_mma, _no_tensor_cores, _waves, _conflicts, _portable)


def warnings(facts: KernelFacts) -> list[str]:
    return [sentence for rule in WARNINGS for sentence in rule(facts)]
