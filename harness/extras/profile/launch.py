"""The program that ncu runs: build one iteration, verify it on the inputs at hand, then launch it once, in a range.

``python -m harness.extras.profile.launch <job.json>``. It waits with the device until it
holds the gate, so that the next iteration is imported and built while another is counted. What it found is in the
job's ``outcome``, written whole.
"""

import fcntl
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.judge.child.inputs import inputs
from harness.judge.facts.compilation import kernel_names
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem
from harness.records.results import Cause, Trial

if TYPE_CHECKING:
    import torch

TRACED_LAUNCHES: Final = 10


class Job(msgspec.Struct, frozen=True):
    """What to launch. ``trace`` takes a trace of activities instead, where there are no counters."""

    root: str
    path: str
    gpu: str
    gate: str
    outcome: str
    parent: int
    trace: str | None = None


class Launched(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What became of a job: the names in the generated source, the trials, seconds by step, and why it ended early."""

    kernels: tuple[str, ...] = ()
    trials: tuple[Trial, ...] = ()
    seconds: dict[str, float] = {}
    cause: Cause | None = None
    reason: str | None = None


class Stop(Exception):
    """The iteration is not to be profiled."""

    def __init__(self, cause: Cause, reason: str) -> None:
        super().__init__(reason)
        self.cause = cause
        self.reason = reason


@dataclass(slots=True)
class _Run:
    """One job on its way."""

    job: Job
    kernels: tuple[str, ...] = ()
    trials: list[Trial] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = round(time.perf_counter() - started, 3)

    def report(self, stop: Stop | None) -> None:
        """Write the outcome, whole or not at all."""
        cause, reason = (stop.cause, stop.reason) if stop else (None, None)
        found = Launched(self.kernels, tuple(self.trials), self.seconds, cause, reason)
        path = Path(self.job.outcome)
        part = path.with_suffix(".part")
        part.write_bytes(msgspec.json.encode(found))
        part.replace(path)

    def go(self) -> None:
        """All steps in order; raises Stop."""
        job, gpu = self.job, gpus.find(self.job.gpu)
        problem = Tree(Path(job.root)).parse(Path(job.path)).problem
        with self.step("import"):
            import tilelang
            import torch

            from harness.judge.child import contestant, kernel

            sys.dont_write_bytecode = True  # from here on it is the iteration's
            tilelang.disable_cache()
            torch.backends.cuda.matmul.allow_tf32 = False
        device = torch.device("cpu" if gpu.is_cpu else "cuda")
        with self.step("build"):
            launchable = _build(job, problem, gpu, device, contestant, kernel)
        self.kernels = kernel_names(launchable.compilation.source if launchable.compilation else "")
        if not self.kernels and not gpu.is_cpu:
            raise Stop(
                Cause.CONTRACT,
                "it has no generated source, as a library call has none, so that its kernels have no names to expect",
            )
        with self.step("wait"):
            gate = os.open(job.gate, os.O_WRONLY | os.O_CREAT)  # held until the process ends
            fcntl.flock(gate, fcntl.LOCK_EX)
        with self.step("verify"):
            tensors = _tensors(problem, device)
            self._verify("profiled inputs", problem, launchable.launch, tensors)
        with self.step("launch"):
            if job.trace is not None:
                _trace(job.trace, launchable.launch, tensors)
            else:
                _launch_once(launchable.launch, tensors)
            self._compare("profiled launch", problem, tensors)

    def _verify(self, name: str, problem: Problem, launch: Any, tensors: "list[torch.Tensor]") -> None:
        from harness.judge.child.serve import explain

        tensors[-1].fill_(float("nan"))
        try:
            launch(*tensors)
            self._compare(name, problem, tensors)
        except Stop:
            raise
        except Exception as error:
            raise Stop(Cause.RUNTIME, explain(error)) from None

    def _compare(self, name: str, problem: Problem, tensors: "list[torch.Tensor]") -> None:
        from harness.judge import limits
        from harness.judge.child import trials

        *inputs, output = tensors
        trial = trials.compare(name, problem, output, trials.reference(problem, inputs))
        self.trials.append(trial)
        if (wrong := limits.complaint(trial)) is not None:
            raise Stop(Cause.WRONG_RESULT, wrong)


def _build(job: Job, problem: Problem, gpu: Gpu, device: "torch.device", contestant: Any, kernel: Any) -> Any:
    """The kernel, as the contestant builds it."""
    from harness.judge.child.serve import explain
    from harness.judge.facts.signature import mismatch

    cause = Cause.LOAD
    try:
        module = contestant.load(Path(job.path))
        cause = Cause.COMPILE
        built = kernel.build_kernel(module.build, problem, gpu, device)
    except Exception as error:
        raise Stop(cause, explain(error)) from None
    difference = mismatch(built.signature, problem) if built.signature is not None else None
    if difference is not None:
        raise Stop(Cause.WRONG_PROBLEM, difference)
    return built


def _tensors(problem: Problem, device: "torch.device") -> "list[torch.Tensor]":
    """Fresh scaled inputs, and the output."""
    import torch

    output = torch.empty(problem.output_shape, dtype=getattr(torch, problem.output), device=device)
    return [*inputs(problem, device), output]


def _launch_once(launch: Any, tensors: "list[torch.Tensor]") -> None:
    """One launch in the range that ncu counts; it saves and restores all that the process holds for each pass."""
    import torch

    tensors[-1].fill_(float("nan"))
    if not tensors[-1].is_cuda:
        launch(*tensors)
        return
    torch.cuda.empty_cache()
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    launch(*tensors)
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def _trace(path: str, launch: Any, tensors: "list[torch.Tensor]") -> None:
    """Some launches under the profiler of torch, which needs no counters."""
    import torch

    with torch.profiler.profile() as profiler:
        for _ in range(TRACED_LAUNCHES):
            launch(*tensors)
        if tensors[-1].is_cuda:
            torch.cuda.synchronize()
    profiler.export_chrome_trace(path)


def _watch(parent: int) -> None:
    """End with the run and with ncu, however they end: the one would leave the other, or this, to go on."""
    starter = os.getppid()

    def watch() -> None:
        while Path(f"/proc/{parent}").exists() and os.getppid() == starter:
            time.sleep(0.5)
        os._exit(3)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    job = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Job)
    _watch(job.parent)
    run = _Run(job)
    try:
        run.go()
    except Stop as stop:
        run.report(stop)
    else:
        run.report(None)


if __name__ == "__main__":
    main()
