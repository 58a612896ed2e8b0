"""The program that ncu runs. It builds one iteration, verifies it, and launches it once in a profiled range.

Run it as ``python -m harness.extras.profile.launch <job.json>``. A lock file, the gate, lets one launch at a time use
the device; the next iteration is imported and built meanwhile. The findings go to the job's ``outcome`` file.
"""

import fcntl
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.judge.child.inputs import tensors as tensors_of
from harness.judge.facts.compilation import kernel_names
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem
from harness.machine import files
from harness.records.base import Cause
from harness.records.results import Trial

if TYPE_CHECKING:
    import torch

    from harness.judge.child.kernel import Kernel

TRACED_LAUNCHES: Final = 10
PARENT_POLL_S: Final = 0.5


class Job(msgspec.Struct, frozen=True):
    """What to launch. ``trace`` is a file for a trace of activities, used where there are no counters."""

    root: str
    path: str
    gpu: str
    gate: str
    outcome: str
    parent: int
    trace: str | None = None


class Launched(msgspec.Struct, forbid_unknown_fields=True):
    """The outcome of a job. ``kernels`` are the names in the generated source, ``seconds`` the time of each step.

    ``cause`` and ``reason`` are set if the job ended early.
    """

    kernels: tuple[str, ...] = ()
    trials: tuple[Trial, ...] = ()
    seconds: dict[str, float] = {}
    cause: Cause | None = None
    reason: str | None = None

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time one step."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = round(time.perf_counter() - started, 3)


@dataclass(eq=False)
class CannotProfile(Exception):
    """The iteration cannot be profiled."""

    cause: Cause
    reason: str


def main() -> None:
    job = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Job)
    _exit_with(job.parent)
    found = Launched()
    try:
        carry_out(job, found)
    except CannotProfile as stop:
        from harness.judge.child.failure import located
        from harness.judge.places import UserCode

        code = UserCode(Path(job.path), Path(job.root))
        found.cause, found.reason = stop.cause, located(stop.__cause__ or stop, code, stop.reason)
    files.put(Path(job.outcome), msgspec.json.encode(found))


def carry_out(job: Job, found: Launched) -> None:
    """Run all steps in order and note their results in ``found``. Raises CannotProfile."""
    gpu = gpus.find(job.gpu)
    problem = Tree.opened(Path(job.root)).parse(Path(job.path)).problem
    with found.step("import"):
        import tilelang
        import torch

        tilelang.disable_cache()
        torch.backends.cuda.matmul.allow_tf32 = False
    device = torch.device("cpu" if gpu.is_cpu else "cuda")
    with found.step("build"):
        kernel = _build(Path(job.path), problem, gpu, device)
    found.kernels = kernel_names(kernel.compilation.source if kernel.compilation else "")
    if not found.kernels and not gpu.is_cpu:
        raise CannotProfile(
            Cause.CONTRACT, "it has no generated source, so the names of its kernels are unknown (a library call?)"
        )
    with found.step("wait"):
        gate = os.open(job.gate, os.O_WRONLY | os.O_CREAT)  # held until the process ends
        fcntl.flock(gate, fcntl.LOCK_EX)
    with found.step("verify"):
        tensors = tensors_of(problem, device)
        _launch("profiled inputs", kernel, problem, tensors, found)
    with found.step("launch"):
        if job.trace is not None:
            _trace(lambda: kernel.launch(*tensors), job.trace)
        profiled = job.trace is None and not gpu.is_cpu
        _launch("profiled launch", kernel, problem, tensors, found, profiled=profiled)


def _build(path: Path, problem: Problem, gpu: Gpu, device: "torch.device") -> "Kernel":
    """Build the kernel as the judge's contestant process does."""
    from harness.judge.child import contestant, kernel
    from harness.judge.child.failure import explain
    from harness.judge.facts.signature import mismatch

    sys.dont_write_bytecode = True  # nothing is written beside the iteration
    cause = Cause.LOAD
    try:
        module = contestant.load(path)
        cause = Cause.COMPILE
        built = kernel.build_kernel(module.build, problem, gpu, device)
    except Exception as error:
        raise CannotProfile(cause, explain(error)) from error
    difference = mismatch(built.signature, problem, built.dynamic) if built.signature is not None else None
    if difference is not None:
        raise CannotProfile(Cause.WRONG_PROBLEM, difference)
    return built


def _launch(
    name: str,
    kernel: "Kernel",
    problem: Problem,
    tensors: "list[torch.Tensor]",
    found: Launched,
    *,
    profiled: bool = False,
) -> None:
    """Launch once into poisoned outputs and compare them; ``profiled``: inside the range that ncu counts.

    Raises CannotProfile if the launch fails or an output is wrong.
    """
    import torch

    from harness.judge import limits
    from harness.judge.child import trials
    from harness.judge.child.failure import explain

    count = len(problem.inputs)
    given = [each.clone() if place in problem.places else each for place, each in enumerate(tensors[:count])]
    trials.poison(tensors[count:])
    if profiled:
        torch.cuda.empty_cache()  # ncu saves and restores all memory of the process for each pass
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
    try:
        kernel.launch(*tensors)
        if tensors[0].is_cuda:
            torch.cuda.synchronize()
    except Exception as error:
        raise CannotProfile(Cause.RUNTIME, explain(error)) from error
    if profiled:
        torch.cuda.profiler.stop()
    for trial in trials.judged(name, problem, given, [tensors[place] for place in problem.places]):
        found.trials += (trial,)
        if (wrong := limits.complaint(trial)) is not None:
            raise CannotProfile(Cause.WRONG_RESULT, wrong)


def _trace(launch: Callable[[], None], path: str) -> None:
    """Trace some launches with torch's profiler, which needs no counters."""
    import torch

    with torch.profiler.profile() as profiler:
        for _ in range(TRACED_LAUNCHES):
            launch()
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
    profiler.export_chrome_trace(path)


def _exit_with(parent: int) -> None:
    """Exit when the run or ncu exits."""
    starter = os.getppid()

    def watch() -> None:
        while Path(f"/proc/{parent}").exists() and os.getppid() == starter:
            time.sleep(PARENT_POLL_S)
        os._exit(3)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    main()
