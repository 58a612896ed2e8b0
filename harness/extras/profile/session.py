"""One iteration's profile: its launch under ncu or under a trace, what came of it, and the record of both."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from harness.catalog.tree import Iteration, Tree
from harness.errors import InfrastructureError
from harness.extras.profile import fallback, report
from harness.extras.profile.advice import advise
from harness.extras.profile.bottleneck import judge
from harness.extras.profile.case import Case, parse_config
from harness.extras.profile.children import Children, Done
from harness.extras.profile.figures import Figures, figures
from harness.extras.profile.ideas import untried
from harness.extras.profile.launch import Job, Launched
from harness.extras.profile.ncu import Ncu, NcuError, complaint, trouble
from harness.judge import contract
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.hashes import families_sha256, source_sha256
from harness.machine import files
from harness.machine.nvml import Device
from harness.records.profiles import KernelTime, Outcome, ProfileRecord
from harness.records.results import SCHEMA, Environment

WORDS_OF_A_CRASH: Final = 160


class Refusal(Exception):
    """What ran, or would run, is not what was to be profiled."""


@dataclass(frozen=True, slots=True)
class Session:
    """What the profiles of one run share; ``scratch`` is its own folder, the gate in it lets one launch at a time."""

    tree: Tree
    gpu: Gpu
    device: Device | None
    environment: Callable[[str], Environment]
    children: Children
    scratch: Path
    deadline_s: float

    def count(self, iteration: Iteration, ncu: Ncu) -> ProfileRecord:
        """Profile an iteration's launch with counters; its report and table replace older ones only if all went well.

        Raises Refusal, and InfrastructureError for what is not the iteration's fault (CountersRefused among them).
        """
        started = time.monotonic()
        blank = self.blank(iteration)
        final, partial = (self.tree.ncu(iteration, f"{part}ncu-rep") for part in ("", "partial."))
        partial.parent.mkdir(parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)
        try:
            launched, said = self._launch(iteration, lambda program: ncu.command(partial, program))
            if not partial.is_file():
                why = complaint(said) or "and says nothing of why"
                raise NcuError(f"{ncu.name} wrote no report of {iteration.name}: {why}")
            text = ncu.table(partial, self.children, self._surroundings(self.scratch), self.scratch)
            kernels = report.parse(text, self.tree.short(self.tree.ncu(iteration, "csv")))
            self._expect(launched.kernels, [kernel.name for kernel in kernels])
            read = [figures(kernel) for kernel in kernels]
            self._unchanged(iteration, blank)
            self._replace(iteration, partial, final, text)
        finally:
            partial.unlink(missing_ok=True)
        seconds = launched.seconds | {"all": round(time.monotonic() - started, 3)}
        return self._judged(iteration, blank, read, ncu.name, sha256(text.encode()).hexdigest(), seconds)

    def time(self, iteration: Iteration) -> ProfileRecord:
        """Names and durations of an iteration's kernels, without counters; raises as ``count`` does."""
        started = time.monotonic()
        blank = self.blank(iteration)
        trace = self.scratch / f"{_slug(iteration)}.trace.json"
        launched, _ = self._launch(iteration, list, trace)
        kernels = fallback.read(trace)
        self._expect(launched.kernels, [kernel.name for kernel in kernels])
        self._unchanged(iteration, blank)
        return msgspec.structs.replace(
            blank,
            outcome=Outcome.TIMED,
            profiler=fallback.PROFILER,
            kernels=kernels,
            duration_us=round(sum(kernel.duration_us for kernel in kernels), 3),
            seconds=launched.seconds | {"all": round(time.monotonic() - started, 3)},
        )

    def failed(self, iteration: Iteration, outcome: Outcome, reason: str) -> ProfileRecord:
        return msgspec.structs.replace(self.blank(iteration), outcome=outcome, reason=reason)

    def blank(self, iteration: Iteration) -> ProfileRecord:
        """The record of an iteration as it lies there now, before anything is found."""
        return ProfileRecord(
            schema=SCHEMA,
            recorded_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            gpu=iteration.gpu,
            shape_key=iteration.shape_key,
            model=iteration.model,
            iteration=iteration.name,
            number=iteration.number,
            outcome=Outcome.FAILED,
            source_sha256=source_sha256(iteration.path),
            families_sha256=families_sha256(self.tree.root, iteration.path),
            environment=self.environment(iteration.problem.operator),
        )

    def _launch(
        self,
        iteration: Iteration,
        wrap: Callable[[list[str]], list[str]],
        trace: Path | None = None,
    ) -> tuple[Launched, str]:
        """Run the launching program; what it reports, where the launch took place, and what was printed."""
        folder = self.scratch / _slug(iteration)
        folder.mkdir(exist_ok=True)
        outcome, job = folder / "outcome.json", folder / "job.json"
        outcome.unlink(missing_ok=True)
        job.write_bytes(
            msgspec.json.encode(
                Job(
                    root=str(self.tree.root),
                    path=str(iteration.path),
                    gpu=self.gpu.key,
                    gate=str(self.scratch / "gate"),
                    outcome=str(outcome),
                    parent=os.getpid(),
                    trace=None if trace is None else str(trace),
                )
            )
        )
        program = [sys.executable, "-m", "harness.extras.profile.launch", str(job)]
        done = self.children.run(wrap(program), self._surroundings(folder), folder, self.deadline_s)
        said = done.stdout + "\n" + done.stderr
        if (known := trouble(said)) is not None:
            raise known
        if done.timed_out:
            raise InfrastructureError(f"{iteration.name} was not profiled within {self.deadline_s:g} s; see --deadline")
        if not outcome.is_file():
            raise Refusal(_fate(done))
        launched = msgspec.json.decode(outcome.read_bytes(), type=Launched)
        if launched.reason is not None:
            raise Refusal(launched.reason)
        return launched, said

    def _surroundings(self, folder: Path) -> dict[str, str]:
        """The environment of a program: this checkout first, one device, English messages, files in the scratch."""
        mine = {
            "PYTHONPATH": self.tree.python_path,
            "TILELANG_PRINT_ON_COMPILATION": "0",
            "TMPDIR": str(folder),
            "LC_ALL": "C.UTF-8",
        }
        if self.device is not None:
            mine["CUDA_VISIBLE_DEVICES"] = self.device.uuid
        return dict(os.environ) | mine

    def _expect(self, expected: Sequence[str], found: Sequence[str]) -> None:
        """Each of the iteration's kernels once, and no other; raises Refusal."""
        if sorted(expected) != sorted(found):
            raise Refusal(
                f"the launch ran {', '.join(found)}, where the iteration's source has "
                f"{', '.join(expected) or 'none'}, each once"
            )

    def _unchanged(self, iteration: Iteration, blank: ProfileRecord) -> None:
        now = self.blank(iteration)
        if (now.source_sha256, now.families_sha256) != (blank.source_sha256, blank.families_sha256):
            raise Refusal("its source or its family changed while it was profiled")

    def _replace(self, iteration: Iteration, partial: Path, final: Path, text: str) -> None:
        """The report and its table, each whole or as it was."""
        files.put(self.tree.ncu(iteration, "csv"), text.encode())
        partial.replace(final)

    def _judged(
        self,
        iteration: Iteration,
        blank: ProfileRecord,
        kernels: list[Figures],
        profiler: str,
        csv_sha256: str,
        seconds: dict[str, float],
    ) -> ProfileRecord:
        """What the figures say of the kernel that took longest."""
        whole_us = sum(kernel.duration_us for kernel in kernels)
        longest = max(kernels, key=lambda kernel: kernel.duration_us)
        problem = iteration.problem
        verdict = judge(longest, problem, self.gpu, whole_us - longest.duration_us)
        config = parse_config(contract.check(iteration).config)
        return msgspec.structs.replace(
            blank,
            outcome=Outcome.PROFILED,
            profiler=profiler,
            kernels=tuple(KernelTime(kernel.kernel, round(kernel.duration_us, 3)) for kernel in kernels),
            duration_us=round(whole_us, 3),
            bound=verdict.bound,
            confidence=verdict.confidence,
            limiter=verdict.limiter,
            evidence=verdict.evidence,
            ideas=untried(self.tree, iteration, advise(Case(longest, verdict, problem, self.gpu, config))),
            metrics=longest.metrics,
            csv_sha256=csv_sha256,
            seconds=seconds,
        )


def _fate(done: Done) -> str:
    said = (done.stderr.strip() or done.stdout).splitlines()
    lines = [line.strip() for line in said if line.strip() and not line.startswith("==")]
    last = f" (it printed: {lines[-1][:WORDS_OF_A_CRASH]})" if lines else ""
    return f"the process that launches it ended with code {done.code} before it had answered{last}"


def _slug(iteration: Iteration) -> str:
    """A short name for a folder: ncu makes sockets in it, whose paths may have 107 bytes."""
    return sha256(str(iteration).encode()).hexdigest()[:12]
