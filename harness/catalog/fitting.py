"""What a device can hold: problems with dtypes that it lacks, or with larger tensors than its memory."""

import math
from collections.abc import Iterable
from typing import Final

from harness.errors import UsageError
from harness.judge.facts.dtypes import DTYPE_BYTES, NARROW_FLOATS
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem
from harness.machine import memory, nvml
from harness.machine.nvml import Device

# The first compute capability with tensor cores that take a dtype (CUDA C++ Programming Guide).
_LEAST: Final = {"bfloat16": (8, 0), **dict.fromkeys(sorted(NARROW_FLOATS), (8, 9))}
SETS: Final = 2.5  # a verification places two sets of the tensors in an arena that is a quarter larger
POOLS: Final = 3.25  # and holds the inputs once more, and in two pools, of which one is a quarter larger


def require_fit(placed: Iterable[tuple[str, Problem]], gpu: Gpu, device: Device | None) -> None:
    """Raise UsageError, with the place, for the first problem that cannot run there.

    Without the device of a GPU its memory is not known, and only the dtypes are looked at.
    """
    known = dict[Problem, str | None]()
    for place, problem in placed:
        if problem not in known:
            known[problem] = lacking(problem, gpu) or _too_large(problem, gpu, device)
        if (reason := known[problem]) is not None:
            raise UsageError(f"{place}: {reason}")


def capability(arch: str) -> tuple[int, int]:
    """Major and minor of a name such as ``sm_90a``: (9, 0)."""
    digits = arch.removeprefix("sm_").rstrip("af")
    return int(digits[:-1]), int(digits[-1])


def lacking(problem: Problem, gpu: Gpu) -> str | None:
    """The dtype that a GPU has no instructions for; None if it has all of the problem's."""
    dtypes = () if gpu.is_cpu else (dtype for _, dtype in problem.tensors)
    without = (dtype for dtype in dtypes if capability(gpu.arch) < _LEAST.get(dtype, (0, 0)))
    return next((f"{gpu.key} ({gpu.arch}) has no {dtype}; take another GPU key or dtype" for dtype in without), None)


def needed_bytes(problem: Problem) -> int:
    """Memory without which no verification can begin."""
    sizes = [math.prod(shape) * DTYPE_BYTES[dtype] for shape, dtype in problem.tensors]
    return int(SETS * sum(sizes) + POOLS * sum(sizes[: len(problem.inputs)]))


def _too_large(problem: Problem, gpu: Gpu, device: Device | None) -> str | None:
    if device is None and not gpu.is_cpu:
        return None
    name = "this machine" if device is None else device.name
    there, needed = memory.total_bytes() if device is None else nvml.total_bytes(device), needed_bytes(problem)
    if not 0 < there < needed:
        return None
    return f"it needs {needed / 2**30:.1f} GiB at least, and {name} has {there / 2**30:.1f} GiB; take a smaller shape"
