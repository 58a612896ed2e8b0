"""The bench of a foreign tree: every script through the judge; those whose kernel is not found, by their own word."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.catalog.tree import Selection, Tree
from harness.errors import encodable, printable
from harness.evidence import toolchain
from harness.extras.foreign.entries import Entry, entries
from harness.extras.foreign.itself import run_itself
from harness.extras.foreign.record import Basis, ForeignRecord, path_of
from harness.extras.foreign.scratch_tree import write, yard
from harness.judge import fault_attribution
from harness.judge.candidate import Settings
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.hashes import source_sha256
from harness.judge.processes import start_forkserver
from harness.machine.interruption import heed
from harness.machine.nvml import Device, released
from harness.machine.progress import Reporter, reporting
from harness.records.base import Cause, Environment, Status, now
from harness.records.environment import describing
from harness.records.results import Record
from harness.records.store import append, read
from harness.runs.run import Plan, alone, run

FINDER: Final = ("find.py", "calls.py", "scratch_tree.py", "itself.py")  # what an outcome hangs on, beside the judge
NOT_FOUND: Final = "KernelNotFound: "


@dataclass(frozen=True, slots=True)
class ForeignPlan:
    """Which tree to bench, and how; ``deadline_s`` is for one script that is run as its user would run it."""

    tree: Tree
    foreign: Path
    gpu: Gpu
    device: Device | None
    selection: Selection
    settings: Settings
    deadline_s: float
    again: bool = False


@dataclass(slots=True)
class Outcomes:
    """One record an entry, in ladder order, measured now or before."""

    records: list[tuple[Entry, ForeignRecord]]
    reused: int


def bench(plan: ForeignPlan) -> Outcomes:
    """Carry a plan out; every outcome is on the disk before the next is measured, and none in the foreign tree."""
    listed = entries(plan.foreign, plan.selection)
    course = _Course(plan, describing(plan.tree.root, plan.gpu, plan.device), finder_sha256())
    waiting = [entry for entry in listed if plan.again or not course.knows(entry)]
    if waiting:
        with alone(plan.tree, plan.gpu, plan.device), reporting(len(waiting)) as reporter:
            course.carry_out(waiting, reporter)
    return Outcomes([(entry, course.known[entry.path]) for entry in listed], len(listed) - len(waiting))


def finder_sha256() -> str:
    """Hash of the code that looks for a script's kernel: what changes it may find another."""
    here = Path(__file__).parent
    return hashlib.sha256("".join(source_sha256(here / name) for name in FINDER).encode()).hexdigest()


@dataclass(slots=True)
class _Course:
    """A bench as it goes: what is known, and which scripts the judge could not be given."""

    plan: ForeignPlan
    environment: Callable[[str], Environment]
    finder_sha256: str
    known: dict[Path, ForeignRecord] = field(default_factory=dict)
    unfound: list[tuple[Entry, str]] = field(default_factory=list)

    def knows(self, entry: Entry) -> bool:
        """Whether a new run would only repeat what is recorded."""
        path = path_of(self.plan.tree, self.plan.gpu.key, entry.shape_key, entry.model)
        same = (
            record
            for record in reversed(read(path, ForeignRecord)[0])
            if record.script == entry.script
            and record.sources_sha256 == entry.sources_sha256
            and record.finder_sha256 == self.finder_sha256
            and record.environment == self.environment(entry.operator)
        )
        found = fault_attribution.standing(same, self.plan.gpu)
        if found is not None:
            self.known[entry.path] = found
        return found is not None

    def carry_out(self, waiting: Sequence[Entry], reporter: Reporter) -> None:
        plan = self.plan
        toolchain.find().require(cpu=plan.gpu.is_cpu)
        reporter.doing("importing torch and TileLang")
        start_forkserver(plan.gpu, plan.device)
        self.unfound = [(each, each.unknown) for each in waiting if each.unknown is not None]
        with yard(plan.tree) as place:
            written = write(place, plan.foreign, plan.gpu, [each for each in waiting if each.problem is not None])
            self._judge(place, written, reporter)
            # One that works on the device while it is loaded disturbs its neighbours: these get a turn alone.
            for model, (iteration, entry) in written.items():
                known = self.known.get(entry.path)
                if known is not None and known.cause is Cause.REFEREE:
                    self._judge(place, {model: (iteration, entry)}, reporter)
        for entry, reason in self.unfound:
            heed()
            released(plan.device)
            self._run_itself(entry, reason, reporter)

    def _judge(self, place: Tree, written: dict[str, Any], reporter: Reporter) -> None:
        plan = self.plan
        if not written:
            return

        def keep(record: Record) -> None:
            entry = written[record.model][1]
            reason = record.reason
            if reason is not None and record.attempt is not None:
                reason = reason.partition(f" ({record.attempt};")[0]  # a script has no attempts to use up
            if record.cause is Cause.LOAD:
                self.unfound.append((entry, (reason or "").removeprefix(NOT_FOUND)))
                return
            told = {name: getattr(record, name) for name in ("stage", "cause", "build", "verification", "measurement")}
            self._keep(entry, reporter, basis=Basis.JUDGED, status=record.status, reason=reason, **told)

        released(plan.device)
        iterations = tuple(iteration for iteration, _ in written.values())
        judged = Plan(place, plan.gpu, plan.device, iterations, plan.settings, again=True)
        run(judged, _Doing(reporter.doing, {model: entry for model, (_, entry) in written.items()}), keep)

    def _run_itself(self, entry: Entry, reason: str, reporter: Reporter) -> None:
        reporter.doing(f"running {entry}")
        said, ended = run_itself(self.plan.foreign, entry.path, entry.problem, self.plan.gpu, self.plan.deadline_s)
        status = Status.PASSED
        if said.time_ms is None:
            status, ended = Status.FAILED, ended or "it printed no figures, such as TFLOPS: 1.2 time_ms: 3.4"
        elif said.passed is False:
            status, ended = Status.FAILED, ended or "its own verification fails"
        self._keep(
            entry,
            reporter,
            basis=Basis.SELF_REPORTED,
            status=status,
            reason=reason,
            said=said,
            ended=None if ended is None else printable(ended),
        )

    def _keep(self, entry: Entry, reporter: Reporter, **outcome: Any) -> None:
        record = ForeignRecord(
            schema=1,
            recorded_at=now(),
            gpu=self.plan.gpu.key,
            shape_key=entry.shape_key,
            model=entry.model,
            script=entry.script,
            number=entry.number,
            tree=encodable(self.plan.foreign.resolve().name),
            sources_sha256=entry.sources_sha256,
            finder_sha256=self.finder_sha256,
            environment=self.environment(entry.operator),
            **outcome,
        )
        append(path_of(self.plan.tree, record.gpu, record.shape_key, record.model), record)
        again = entry.path in self.known
        self.known[entry.path] = record
        reporter.finished(line(entry, record), advance=not again)


@dataclass(frozen=True, slots=True)
class _Doing:
    """A reporter of the yard's run: what it finishes is told by whoever keeps it, under the script's own name."""

    tell: Callable[[str], None]
    entries: dict[str, Entry]

    def doing(self, text: str) -> None:
        for model, entry in self.entries.items():
            if f"/{model}/" in text:
                text = f"{text.partition(' ')[0]} {entry}"
        self.tell(text)

    def finished(self, text: str, *, advance: bool = True) -> None: ...


def line(entry: Entry, record: ForeignRecord) -> str:
    """One script's outcome, in one line."""
    if record.basis is Basis.SELF_REPORTED:
        told = record.ended or ""
        if record.status is Status.PASSED and record.said is not None:
            told = f"{record.said.time_ms:.4g} ms by its own word"
        return printable(f"{record.basis if record.status is Status.PASSED else record.status:<13} {entry}: {told}")
    measured = record.measurement
    if record.status is not Status.PASSED or measured is None:
        return printable(f"{record.status:<13} {entry}: {record.stage}: {record.reason}")
    interval = f"[{measured.ratio_low:.4f}, {measured.ratio_high:.4f}]"
    return f"{record.status:<13} {entry}: {measured.time_ms:.4g} ms, ratio {measured.ratio:.4f} {interval}"
