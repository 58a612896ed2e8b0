"""Records of builds: what the compilers say of each kernel, and how compiling ended."""

import msgspec

from harness.records.base import Cause, IterationRecord, Status


class KernelEvidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the compilers say of one device kernel (docs/reference/build.md); None where the tool is missing.

    Registers and spills are per thread, shared memory and ``threads`` per block. Each instruction of the code counts
    once, however often it runs. ``waves`` is the grid over the blocks that all SMs hold at once.
    """

    name: str
    grid: tuple[int, int, int]
    threads: int
    cluster: tuple[int, int, int]
    dynamic_shared_bytes: int
    static_shared_bytes: int | None = None
    shared_limit_bytes: int | None = None
    registers: int | None = None
    stack_bytes: int | None = None
    spill_store_bytes: int | None = None
    spill_load_bytes: int | None = None
    blocks_per_sm: int | None = None
    limited_by: str | None = None
    waves: float | None = None
    instructions: dict[str, int] | None = None
    tma_loads: int | None = None
    tma_stores: int | None = None
    cp_async: int | None = None
    ldmatrix: int | None = None

    @property
    def shared_bytes(self) -> int | None:
        return None if self.static_shared_bytes is None else self.static_shared_bytes + self.dynamic_shared_bytes

    @property
    def spill_bytes(self) -> int | None:
        if self.spill_store_bytes is None or self.spill_load_bytes is None:
            return None
        return self.spill_store_bytes + self.spill_load_bytes


class Build(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The result of compiling. ``generated_sha256`` is of the generated source, None for a library call.

    The other fields are evidence, absent for a library call and on a CPU. The computing kernel comes first.
    ``traced_sha256`` is of a dynamic kernel's program before it is compiled; None for any other.
    """

    seconds: float
    generated_sha256: str | None = None
    generated_bytes: int = 0
    cubin_bytes: int | None = None
    kernels: tuple[KernelEvidence, ...] | None = None
    warnings: tuple[str, ...] | None = None
    traced_sha256: str | None = None


class BuildRecord(IterationRecord, frozen=True):
    """The outcome of compiling one source for one architecture. A later build need not repeat it.

    ``nvcc`` and ``disassembler`` are versions, empty where the build needs none or found none. ``analysis`` is the
    version of the evidence (harness/evidence/evidence.py).
    """

    status: Status
    source_sha256: str
    families_sha256: str
    arch: str
    nvcc: str
    disassembler: str
    tilelang: str
    analysis: int
    judge_sha256: str
    cause: Cause | None = None
    reason: str | None = None
    attempt: str | None = None
    build: Build | None = None
    traceback: str | None = None
