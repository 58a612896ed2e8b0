"""Evidence: what a compiled kernel tells before it runs, gathered from the tools and held against the limits."""

import hashlib
from pathlib import Path
from typing import Final

from harness.evidence import banks, rules, sass
from harness.evidence.rules import KernelFacts
from harness.judge.facts import architectures, occupancy, ptxas
from harness.judge.facts.compilation import Compilation, Launch
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import DTYPE_BYTES, Problem
from harness.records.builds import Build, KernelEvidence

ANALYSIS: Final = 1  # raise it when a figure changes its meaning: what is recorded is then found out anew


def examine(
    compilation: Compilation | None, problem: Problem, gpu: Gpu, seconds: float, cuobjdump: Path | None
) -> Build:
    """The evidence of one build; without a compilation only that it was made."""
    if compilation is None:
        return Build(seconds)
    build = Build(seconds, generated_sha256(compilation), len(compilation.source.encode()))
    if gpu.is_cpu:
        return build
    facts = _facts(compilation, problem, gpu, cuobjdump)
    return Build(
        build.seconds,
        build.generated_sha256,
        build.generated_bytes,
        None if compilation.cubin is None else len(compilation.cubin),
        tuple(map(_evidence, facts)),
        tuple(dict.fromkeys(sentence for each in facts for sentence in rules.warnings(each))),
    )


def generated_sha256(compilation: Compilation | None) -> str | None:
    """Of the generated source, found out here: a contestant's own word would be worth nothing."""
    return None if compilation is None else hashlib.sha256(compilation.source.encode()).hexdigest()


def _facts(compilation: Compilation, problem: Problem, gpu: Gpu, cuobjdump: Path | None) -> list[KernelFacts]:
    """Of all kernels, the one that computes first: the most tensor core instructions, then the most of all."""
    usages = ptxas.usage(compilation.log)
    text = None
    if cuobjdump is not None and compilation.cubin is not None:
        text = sass.disassemble(cuobjdump, compilation.cubin)
    codes = sass.read(text) if text is not None else {}
    conflicts = banks.conflicts(compilation.source)
    remarks = ptxas.remarks(compilation.log)
    facts = [
        _of_one(launch, problem, gpu, usages.get(launch.name), codes.get(launch.name), remarks, conflicts)
        for launch in compilation.launches
    ]
    return sorted(facts, key=_weight, reverse=True)


def _of_one(
    launch: Launch,
    problem: Problem,
    gpu: Gpu,
    usage: ptxas.Usage | None,
    code: sass.Code | None,
    remarks: tuple[str, ...],
    conflicts: dict[str, tuple[str, ...]],
) -> KernelFacts:
    limits = architectures.limits(gpu.arch)
    x, y, z = launch.block
    blocks, limited_by = None, None
    if limits is not None and usage is not None and x * y * z > 0:
        shared_bytes = launch.dynamic_shared_bytes + usage.static_shared_bytes
        blocks, limited_by = occupancy.blocks_per_sm(limits, x * y * z, usage.registers, shared_bytes, usage.barriers)
    return KernelFacts(
        launch=launch,
        arch=gpu.arch,
        limits=limits,
        sms=gpu.sms,
        input_bits=DTYPE_BYTES[problem.input] * 8,
        usage=usage,
        code=code,
        blocks_per_sm=blocks,
        limited_by=limited_by,
        remarks=remarks,
        conflicts=conflicts.get(launch.name, ()),
        compute_bound=not gpu.is_memory_bound(problem),
    )


def _weight(facts: KernelFacts) -> tuple[int, int]:
    return (sum(facts.code.tensor.values()), facts.code.instructions) if facts.code else (0, 0)


def _evidence(facts: KernelFacts) -> KernelEvidence:
    launch, usage, code = facts.launch, facts.usage, facts.code
    return KernelEvidence(
        name=launch.name,
        grid=launch.grid,
        threads=facts.threads,
        cluster=launch.cluster,
        dynamic_shared_bytes=launch.dynamic_shared_bytes,
        static_shared_bytes=usage.static_shared_bytes if usage else None,
        shared_limit_bytes=facts.limits.block_shared_bytes if facts.limits else None,
        registers=usage.registers if usage else None,
        stack_bytes=usage.stack_bytes if usage else None,
        spill_store_bytes=usage.spill_store_bytes if usage else None,
        spill_load_bytes=usage.spill_load_bytes if usage else None,
        blocks_per_sm=facts.blocks_per_sm,
        limited_by=facts.limited_by,
        waves=None if facts.waves is None else round(facts.waves, 3),
        instructions=code.tensor if code else None,
        tma_loads=code.tma_loads if code else None,
        tma_stores=code.tma_stores if code else None,
        cp_async=code.cp_async if code else None,
        ldmatrix=code.ldmatrix if code else None,
    )
