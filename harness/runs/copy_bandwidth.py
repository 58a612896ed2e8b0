"""The copy bandwidth: the bandwidth of the library's copy of as many bytes, measured in the same run.

No kernel that moves its problem's bytes once is much faster, so memory-bound kernels are compared with it.
"""

from collections.abc import Iterable
from typing import Final

from harness.authoring import scaffold
from harness.catalog.tree import Iteration, Tree
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import DTYPE_BYTES, DTYPES, OUTPUTS, Problem
from harness.records.results import Record
from harness.records.store import read
from harness.records.throughput import bandwidth_gbs

OPERATOR: Final = "copy"
ROW: Final = 1024  # elements


def companion(problem: Problem) -> Problem:
    """The copy of as many bytes, rounded to whole rows; of bfloat16 where a key cannot name a copy of the inputs."""
    dtype = problem.input if problem.input in map(DTYPES.get, OUTPUTS) else "bfloat16"
    rows = round(problem.bytes / (2 * ROW * DTYPE_BYTES[dtype]))
    return Problem(OPERATOR, dtype, "float32", dtype, (max(1, rows), ROW))


def iterations(tree: Tree, gpu: Gpu, measured: Iterable[Iteration]) -> list[Iteration]:
    """The library's copies for the memory-bound problems in ``measured``, written where they are missing."""
    wanted = {
        (companion(each.problem), each.model)
        for each in measured
        if each.problem.operator != OPERATOR and gpu.is_memory_bound(each.problem)
    }
    return [scaffold.ensure_baseline(tree, problem, gpu, model) for problem, model in sorted(wanted, key=str)]


def newest_gbs(
    tree: Tree, gpu: Gpu, problem: Problem, models: Iterable[str], rank_key: tuple[str, ...]
) -> float | None:
    """The newest copy bandwidth for a memory-bound problem in one environment; None if there is none."""
    if not gpu.is_memory_bound(problem):
        return None
    copied = companion(problem)
    found = [
        record
        for model in models
        for record in read(tree.records(gpu.key, copied.shape_key, model), Record)[0]
        if record.number == 0 and record.measurement is not None and record.environment.rank_key == rank_key
    ]
    newest = max(found, key=lambda record: record.recorded_at, default=None)
    return bandwidth_gbs(copied, newest.measurement.time_ms) if newest and newest.measurement else None
