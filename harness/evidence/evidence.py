"""Evidence: what the tools say of a compiled kernel before it runs."""

import hashlib
import math
from pathlib import Path
from typing import Final

import msgspec

from harness.evidence import banks, rules, sass
from harness.evidence.rules import KernelFacts
from harness.judge.facts import architectures, occupancy, ptxas
from harness.judge.facts.architectures import SmLimits
from harness.judge.facts.compilation import Compilation, Launch
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import DTYPE_BYTES, Problem
from harness.records.builds import Build, KernelEvidence

ANALYSIS: Final = 1  # raise it when a figure changes its meaning: recorded builds are then examined again
_OF_USAGE: Final = ("static_shared_bytes", "registers", "stack_bytes", "spill_store_bytes", "spill_load_bytes")
_OF_CODE: Final = {
    "tma_loads": ("UTMALDG", "UBLKCP"),
    "tma_stores": ("UTMASTG", "UTMAREDG"),
    "cp_async": ("LDGSTS",),
    "ldmatrix": ("LDSM",),
}


def examine(
    compilation: Compilation | None, problem: Problem, gpu: Gpu, seconds: float, cuobjdump: Path | None
) -> Build:
    """The evidence of one build; a call of the library has no compilation, and a CPU no evidence."""
    if compilation is None:
        return Build(seconds)
    build = Build(seconds, generated_sha256(compilation), len(compilation.source.encode()))
    if gpu.is_cpu:
        return build
    facts = _facts(compilation, problem, gpu, cuobjdump)
    return msgspec.structs.replace(
        build,
        cubin_bytes=None if compilation.cubin is None else len(compilation.cubin),
        kernels=tuple(map(_evidence, facts)),
        warnings=tuple(dict.fromkeys(sentence for each in facts for sentence in rules.warnings(each))),
    )


def generated_sha256(compilation: Compilation | None) -> str | None:
    """Hash of the generated source, computed here because a contestant's own hash proves nothing."""
    return None if compilation is None else hashlib.sha256(compilation.source.encode()).hexdigest()


def _facts(compilation: Compilation, problem: Problem, gpu: Gpu, cuobjdump: Path | None) -> list[KernelFacts]:
    """The facts of each kernel. The computing kernel is first: most tensor core instructions, then most of all."""
    text = None
    if cuobjdump is not None and compilation.cubin is not None:
        text = sass.disassemble(cuobjdump, compilation.cubin)
    usages, codes = ptxas.usage(compilation.log), sass.read(text or "")
    conflicts, remarks = banks.conflicts(compilation.source), ptxas.remarks(compilation.log)
    limits = architectures.limits(gpu.arch)
    facts = []
    for launch in compilation.launches:
        usage = usages.get(launch.name)
        blocks, limited_by = _occupancy(launch, usage, limits)
        facts.append(
            KernelFacts(
                launch=launch,
                arch=gpu.arch,
                limits=limits,
                sms=gpu.sms,
                input_bits=DTYPE_BYTES[problem.input] * 8,
                usage=usage,
                code=codes.get(launch.name),
                blocks_per_sm=blocks,
                limited_by=limited_by,
                remarks=remarks,
                conflicts=conflicts.get(launch.name, ()),
                compute_bound=not gpu.is_memory_bound(problem),
            )
        )
    return sorted(facts, key=_weight, reverse=True)


def _occupancy(launch: Launch, usage: ptxas.Usage | None, limits: SmLimits | None) -> tuple[int | None, str | None]:
    threads = math.prod(launch.block)
    if limits is None or usage is None or threads <= 0:
        return None, None
    shared_bytes = launch.dynamic_shared_bytes + usage.static_shared_bytes
    return occupancy.blocks_per_sm(limits, threads, usage.registers, shared_bytes, usage.barriers)


def _weight(facts: KernelFacts) -> tuple[int, int]:
    return (sum(facts.code.tensor.values()), facts.code.instructions) if facts.code else (0, 0)


def _evidence(facts: KernelFacts) -> KernelEvidence:
    launch, code = facts.launch, facts.code
    return KernelEvidence(
        name=launch.name,
        grid=launch.grid,
        threads=facts.threads,
        cluster=launch.cluster,
        dynamic_shared_bytes=launch.dynamic_shared_bytes,
        shared_limit_bytes=facts.limits.block_shared_bytes if facts.limits else None,
        blocks_per_sm=facts.blocks_per_sm,
        limited_by=facts.limited_by,
        waves=None if facts.waves is None else round(facts.waves, 3),
        instructions=code.tensor if code else None,
        **{name: getattr(facts.usage, name, None) for name in _OF_USAGE},
        **{name: code.count(*opcodes) if code else None for name, opcodes in _OF_CODE.items()},
    )
