"""One profile of one iteration: run its launch under ncu or a trace, check what ran, and make the record."""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.authoring.ideas import parse_config, untried
from harness.boards.power import PowerBound
from harness.catalog.gpus import VISIBLE
from harness.catalog.tree import Iteration, Tree
from harness.errors import InfrastructureError
from harness.extras.profile import fallback, report
from harness.extras.profile.advice import advise
from harness.extras.profile.bottleneck import at_the_limit, find_bottleneck
from harness.extras.profile.case import Case
from harness.extras.profile.children import Children, FinishedProgram
from harness.extras.profile.figures import Figures, figures
from harness.extras.profile.launch import Job, Launched
from harness.extras.profile.ncu import Ncu, complaint, trouble
from harness.judge import contract
from harness.judge.facts.gpu import Gpu
from harness.machine import files
from harness.machine.nvml import Device
from harness.records.base import Environment, identity
from harness.records.profiles import KernelTime, ProfileOutcome, ProfileRecord

CRASH_CHARACTERS: Final = 160


class Refusal(Exception):
    """The launch was wrong, or ran something else than the iteration's kernels."""


@dataclass(frozen=True, slots=True)
class Session:
    """What all profiles of one run share. ``scratch`` holds the gate, which lets one launch run at a time.

    ``power`` holds what is recorded at the power limit, by problem, model and name; ``examples`` the families that
    carry an idea out, by its tag.
    """

    tree: Tree
    gpu: Gpu
    device: Device | None
    environment: Callable[[str], Environment]
    children: Children
    scratch: Path
    deadline_s: float
    power: Mapping[tuple[str, str, str], PowerBound] = field(default_factory=dict)
    examples: Mapping[str, str] = field(default_factory=dict)

    def count(self, iteration: Iteration, ncu: Ncu) -> ProfileRecord:
        """Profile one launch with counters. An older report is replaced only if every step succeeds.

        Raises Refusal for a fault of the iteration, and InfrastructureError, such as CountersRefused, for others.
        """
        started = time.monotonic()
        blank = self.blank(iteration)
        table, final, partial = (self.tree.ncu(iteration, end) for end in ("csv", "ncu-rep", "partial.ncu-rep"))
        partial.parent.mkdir(parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)
        try:
            launched, log = self._launch(iteration, lambda program: ncu.command(partial, program))
            if not partial.is_file():
                raise InfrastructureError(f"{ncu.name} wrote no report of {iteration.name}: {complaint(log)}")
            text = ncu.table(partial, self.children, self._variables(self.scratch), self.scratch)
            reports = report.parse(text, self.tree.short(table))
            self._check(iteration, blank, launched, [each.name for each in reports])
            kernels = [figures(each) for each in reports]
            files.put(table, text.encode())
            partial.replace(final)
        finally:
            partial.unlink(missing_ok=True)
        return msgspec.structs.replace(
            blank,
            outcome=ProfileOutcome.PROFILED,
            profiler=ncu.name,
            csv_sha256=sha256(text.encode()).hexdigest(),
            **_times(started, launched, [KernelTime(each.kernel, round(each.duration_us, 3)) for each in kernels]),
            **self._findings(iteration, kernels),
        )

    def time(self, iteration: Iteration) -> ProfileRecord:
        """Names and durations of an iteration's kernels, without counters; raises as ``count`` does."""
        started = time.monotonic()
        blank = self.blank(iteration)
        trace = self.scratch / f"{_folder_name(iteration)}.trace.json"
        launched, _ = self._launch(iteration, list, trace)
        kernels = fallback.read(trace)
        self._check(iteration, blank, launched, [each.name for each in kernels])
        times = _times(started, launched, kernels)
        return msgspec.structs.replace(blank, outcome=ProfileOutcome.TIMED, profiler=fallback.PROFILER, **times)

    def failed(self, iteration: Iteration, outcome: ProfileOutcome, reason: str) -> ProfileRecord:
        return msgspec.structs.replace(self.blank(iteration), outcome=outcome, reason=reason)

    def blank(self, iteration: Iteration) -> ProfileRecord:
        """The record of an iteration's present source, without findings."""
        source, families = self.tree.hashes(iteration)
        return ProfileRecord(
            **identity(iteration),
            outcome=ProfileOutcome.FAILED,
            source_sha256=source,
            families_sha256=families,
            environment=self.environment(iteration.problem.operator),
        )

    def _launch(
        self, iteration: Iteration, wrap: Callable[[list[str]], list[str]], trace: Path | None = None
    ) -> tuple[Launched, str]:
        """Run the launching program, wrapped in ncu or not; its outcome and its log."""
        folder = self.scratch / _folder_name(iteration)
        folder.mkdir(exist_ok=True)
        outcome, job_file = folder / "outcome.json", folder / "job.json"
        outcome.unlink(missing_ok=True)
        job = Job(
            root=str(self.tree.root),
            path=str(iteration.path),
            gpu=self.gpu.key,
            gate=str(self.scratch / "gate"),
            outcome=str(outcome),
            parent=os.getpid(),
            trace=None if trace is None else str(trace),
        )
        job_file.write_bytes(msgspec.json.encode(job))
        program = [sys.executable, "-m", "harness.extras.profile.launch", str(job_file)]
        finished = self.children.run(wrap(program), self._variables(folder), folder, self.deadline_s)
        log = finished.stdout + "\n" + finished.stderr
        if (known := trouble(log)) is not None:
            raise known
        if finished.timed_out:
            raise InfrastructureError(f"{iteration.name} was not profiled within {self.deadline_s:g} s; see --deadline")
        if not outcome.is_file():
            raise Refusal(_last_words(finished))
        launched = msgspec.json.decode(outcome.read_bytes(), type=Launched)
        if launched.reason is not None:
            raise Refusal(launched.reason)
        return launched, log

    def _variables(self, folder: Path) -> dict[str, str]:
        """Environment variables of a program: this checkout's code, one device, English messages, scratch files."""
        own = {
            "PYTHONPATH": self.tree.python_path,
            "TILELANG_PRINT_ON_COMPILATION": "0",
            "TMPDIR": str(folder),
            "LC_ALL": "C.UTF-8",
        }
        if self.device is not None:
            own[VISIBLE] = self.device.uuid
        return dict(os.environ) | own

    def _check(self, iteration: Iteration, blank: ProfileRecord, launched: Launched, found: Sequence[str]) -> None:
        """Raise Refusal unless each of the iteration's kernels ran once, nothing else ran, and no source changed."""
        if sorted(launched.kernels) != sorted(found):
            raise Refusal(
                f"the launch ran {', '.join(found)}, where the iteration's source has "
                f"{', '.join(launched.kernels) or 'none'}, each once"
            )
        if self.tree.hashes(iteration) != (blank.source_sha256, blank.families_sha256):
            raise Refusal("its source or its family changed while it was profiled")

    def _findings(self, iteration: Iteration, kernels: list[Figures]) -> dict[str, Any]:
        """The bottleneck of the kernel that took longest, and what to try."""
        longest = max(kernels, key=lambda kernel: kernel.duration_us)
        others_us = sum(kernel.duration_us for kernel in kernels) - longest.duration_us
        found = find_bottleneck(longest, iteration.problem, self.gpu, others_us)
        power = self.power.get(iteration.key)
        found = at_the_limit(found, power) if power else found
        config = parse_config(contract.check(iteration).config)
        case = Case(longest, found, iteration.problem, self.gpu, config)
        ideas = advise(case, self.examples)
        return {
            **msgspec.structs.asdict(found),
            "ideas": untried(self.tree, iteration, ideas),
            "metrics": longest.metrics,
        }


def _times(started: float, launched: Launched, kernels: Sequence[KernelTime]) -> dict[str, Any]:
    """The record's times: of each kernel, of all kernels, and of the profile's own steps."""
    return {
        "kernels": tuple(kernels),
        "duration_us": round(sum(kernel.duration_us for kernel in kernels), 3),
        "seconds": launched.seconds | {"all": round(time.monotonic() - started, 3)},
    }


def _last_words(finished: FinishedProgram) -> str:
    printed = (finished.stderr.strip() or finished.stdout).splitlines()
    lines = [line.strip() for line in printed if line.strip() and not line.startswith("==")]
    last = f" (it printed: {lines[-1][:CRASH_CHARACTERS]})" if lines else ""
    return f"the launching process ended with code {finished.code} before it answered{last}"


def _folder_name(iteration: Iteration) -> str:
    """A short name: ncu makes sockets in the folder, and a socket's path may have 107 bytes."""
    return sha256(str(iteration).encode()).hexdigest()[:12]
