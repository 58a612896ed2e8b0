"""The ways to call an addition or the front's products, and the child process that times one beside torch."""

import os
import random
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

from harness.errors import described
from harness.extras.overhead import front
from harness.extras.overhead.front import Call, TimedCall
from harness.extras.overhead.kernels import addition
from harness.judge.child.body import child_body
from harness.judge.child.brief import Brief
from harness.judge.messages import Message, send

LENGTH: Final = 256  # floats a tensor: a GPU adds them in about 2 µs, a core in under 0.1
CALLS: Final = 40  # a block: a GPU queues 1,024 launches before a call has to wait
BLOCKS: Final = 201  # short and many, so that the median ignores blocks that lost their core
WARM_UP_BLOCKS: Final = 5

SPELLINGS: Final = ("tilelang.compile", "lazy @tilelang.jit", "eager @tilelang.jit")
BACKENDS: Final = ("auto", "tvm_ffi", "cython", "nvrtc")
RETURNING: Final = "tilelang.compile, out_idx"
TORCH: Final = "torch.add, out="


@dataclass(frozen=True, slots=True)
class Way:
    """A spelling and an execution backend; ``torch`` has no backend."""

    spelling: str
    backend: str = ""


class HostTime(Message, frozen=True, tag=False):
    """Host µs per call, medians over alternating blocks; ``spread_us`` is half the interquartile range.

    ``torch_us`` is the time of torch's call for the same addition, or for the same product of ``kernels``. µs are None
    where this spelling is not available here, and ``reason`` says why.
    """

    spelling: str
    requested: str
    backend: str = ""
    us: float | None = None
    spread_us: float | None = None
    torch_us: float | None = None
    reason: str | None = None
    first_ms: float | None = None

    @property
    def notes(self) -> str:
        return self.reason or ("" if self.first_ms is None else f"first call {self.first_ms:.0f} ms")


def ways() -> tuple[Way, ...]:
    return (
        Way(TORCH),
        *(Way(spelling, backend) for spelling in SPELLINGS for backend in BACKENDS),
        Way(RETURNING, "auto"),
        *map(Way, front.SPELLINGS),
    )


def run_way(brief: Brief, way: Way, folder: Path, parent: Connection) -> None:
    """Body of the process; what TileLang compiles lies in ``folder``."""
    with child_body(brief, parent, lambda error: HostTime(way.spelling, way.backend, reason=described(error, 200))):
        from harness.judge.child.setup import work_in

        os.environ.pop("PYTORCH_NVML_BASED_CUDA_CHECK", None)  # the forkserver's; a user's calls do not ask NVML
        work_in(folder)
        send(parent, timed(brief, way, folder))


def timed(brief: Brief, way: Way, folder: Path) -> HostTime:
    """Time blocks of this way and of torch's call, in random order; wait for a GPU only between blocks."""
    import torch

    case = front.case(brief, way.spelling, folder) if way.spelling in front.SPELLINGS else _addition(brief, way)
    call, torch_call = case.call, case.torch_call
    if not case.is_right(call()):
        raise ValueError("its result is wrong")
    wait: Call = (lambda: None) if brief.gpu.is_cpu else torch.cuda.synchronize
    taken: dict[Call, list[float]] = {call: [], torch_call: []}
    for block in range(WARM_UP_BLOCKS + BLOCKS):
        for each in random.sample((call, torch_call), 2):
            us = _block_us(each, wait)
            if block >= WARM_UP_BLOCKS:
                taken[each].append(us)
    low, us, high = quantiles(taken[call], n=4)
    figures = us, (high - low) / 2, median(taken[torch_call])
    return HostTime(way.spelling, way.backend, case.backend, *figures, first_ms=case.first_ms)


def _block_us(call: Call, wait: Call) -> float:
    wait()
    started = time.perf_counter()
    for _ in range(CALLS):
        call()
    us = (time.perf_counter() - started) * 1e6 / CALLS
    wait()
    return us


def _addition(brief: Brief, way: Way) -> TimedCall:
    import torch

    a, b = (torch.randn(LENGTH, device="cpu" if brief.gpu.is_cpu else "cuda") for _ in range(2))
    ours, theirs = (torch.full_like(a, float("nan")) for _ in range(2))
    call, backend = _call(brief, way, (a, b, ours))

    def torch_call() -> object:
        return torch.add(a, b, out=theirs)

    def is_right(returned: object) -> bool:
        return torch.equal(returned if isinstance(returned, torch.Tensor) else ours, torch_call())  # type: ignore[arg-type]

    return TimedCall(call, torch_call, is_right, backend)


def _call(brief: Brief, way: Way, tensors: tuple[Any, Any, Any]) -> tuple[Call, str]:
    """One call as a user writes it, and the backend that it uses."""
    import tilelang
    import torch

    from harness.judge.child.kernel import target_of

    a, b, c = tensors
    if way.spelling == TORCH:
        return lambda: torch.add(a, b, out=c), ""
    addition_of, eager_addition = addition(cpu=brief.gpu.is_cpu)
    how = {"target": target_of(brief.gpu), "execution_backend": way.backend}
    compiled: Any
    if way.spelling == "lazy @tilelang.jit":
        lazy = tilelang.jit(**how)(addition_of)
        compiled = lazy(LENGTH)
        return lambda: lazy(LENGTH)(a, b, c), str(compiled.execution_backend)
    if way.spelling == "eager @tilelang.jit":
        eager = tilelang.jit(**how)(eager_addition)
        return lambda: eager(a, b, c), _resolved(brief, way.backend)
    if way.spelling == RETURNING:
        compiled = tilelang.compile(addition_of(LENGTH), out_idx=[2], **how)
        return lambda: compiled(a, b), str(compiled.execution_backend)
    compiled = tilelang.compile(addition_of(LENGTH), **how)
    return lambda: compiled(a, b, c), str(compiled.execution_backend)


def _resolved(brief: Brief, backend: str) -> str:
    """The backend that TileLang chooses for a request such as auto."""
    from tilelang.backend.module import create_backend_context

    from harness.judge.child.kernel import target_of

    return str(create_backend_context(target_of(brief.gpu), None, backend).execution_backend.name)
