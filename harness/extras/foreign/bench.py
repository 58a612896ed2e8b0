"""The bench of a foreign tree: the judge judges each script; a script without a findable kernel runs by itself."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.catalog.tree import Iteration, Selection, Tree
from harness.errors import InfrastructureError, UsageError, encodable, printable
from harness.extras.foreign.record import Basis, ForeignRecord, path_of
from harness.extras.foreign.scratch_tree import foreign_tree, write
from harness.extras.foreign.scripts import ForeignScript, scripts
from harness.extras.foreign.self_report import self_report
from harness.judge import fault_attribution
from harness.judge.candidate import Settings
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.hashes import source_sha256
from harness.judge.places import UserCode, traced, words_of
from harness.machine.interruption import heed
from harness.machine.nvml import Device, released
from harness.machine.progress import Reporter, console, reporting
from harness.machine.table import bounded
from harness.records.base import SCHEMA, Cause, Environment, Stage, Status, now
from harness.records.environment import describing
from harness.records.results import Record
from harness.records.store import append, read
from harness.runs.run import Plan, Results, alone, prepare, run

# Beside the judge, an outcome depends on these modules, which find the kernel.
FINDER: Final = (
    *("find.py", "calls.py", "reading.py", "guess.py", "scratch_tree.py", "self_report.py", "results.py"),
    *("../scratch_tree.py", "../stand_in.py"),
)
NOT_FOUND: Final = "KernelNotFound: "


@dataclass(frozen=True)
class ForeignPlan:
    """Which file or folder to bench, and how; ``deadline_s`` limits one script that runs by itself."""

    tree: Tree
    foreign: Path
    gpu: Gpu
    device: Device | None
    selection: Selection
    settings: Settings
    deadline_s: float
    again: bool = False

    @property
    def root(self) -> Path:
        """The folder that the scripts may import from."""
        return self.foreign if self.foreign.is_dir() else self.foreign.parent

    @cached_property
    def scripts(self) -> list[ForeignScript]:
        """The selected scripts that this key can run; raises InfrastructureError where it can run none of them.

        Others are passed over in one line that counts them: those of no known problem, and for a CPU those with a line
        that needs a GPU.
        """
        listed, left = scripts(self.foreign, self.selection)
        if left and self.selection.shapes is None:
            told = f"{len(left)} files are left out: nothing tells the problem of {left[0].relative_to(self.root)}"
            console.print(printable(f"{told}, or it is not Python; --shape names a problem"), markup=False)
        needing = [each for each in listed if self.gpu.is_cpu and each.for_gpu]
        if not needing:
            return listed
        first = f"{needing[0].path.relative_to(self.root)}:{needing[0].for_gpu}"
        what = f"{len(needing)} of {len(listed)} scripts need a GPU ({first}); --gpu h200 compiles them without one"
        if len(needing) == len(listed):
            raise InfrastructureError(what)
        console.print(printable(what), markup=False)
        return [each for each in listed if not each.for_gpu]


def bench(plan: ForeignPlan) -> tuple[list[tuple[ForeignScript, ForeignRecord]], int]:
    """Carry a plan out: one record a script, in ladder order, and how many of them were recorded before.

    Every outcome is on the disk before the next is measured; the foreign tree stays as it is.
    """
    listed = plan.scripts
    running = _ForeignRun(plan, describing(plan.tree.root, plan.gpu, plan.device), finder_sha256())
    waiting = [script for script in listed if plan.again or not running.knows(script)]
    if waiting:
        with alone(plan.tree, plan.gpu, plan.device), reporting(len(waiting)) as reporter:
            running.reporter = reporter
            running.carry_out(waiting)
    return [(script, running.known[script.path]) for script in listed], len(listed) - len(waiting)


def build(plan: ForeignPlan) -> list[tuple[ForeignScript, Record]]:
    """Compile the kernels for the plan's GPU key on a machine without a GPU; launches and records nothing."""
    selected = plan.scripts
    listed = [each for each in selected if each.problem is not None]
    if strange := [each for each in selected if each.problem is None]:
        what = f"{len(strange)} of {len(selected)} scripts are of no known problem: {strange[0]}: {strange[0].unknown}"
        if not listed:
            raise UsageError(what)
        console.print(printable(what), markup=False)
    found: dict[str, Record] = {}
    with reporting(len(listed)) as reporter, foreign_tree(plan.tree, "program_without_gpu") as scratch:
        written = write(scratch, plan.root, plan.gpu, listed)

        def keep(record: Record) -> None:
            script = written[record.model][1]
            found[record.model] = record = msgspec.structs.replace(record, reason=placed(record, script, plan.root))
            reason = f": {record.reason}" if record.reason else ""
            reporter.finished(printable(f"{record.status:<13} {script}{reason}"))

        iterations = tuple(iteration for iteration, _ in written.values())
        names = {model: str(script) for model, (_, script) in written.items()}
        built = Plan(scratch, plan.gpu, None, iterations, plan.settings, upto=Stage.BUILD, again=True)
        _require_fit(run(built, _ScriptReporter(reporter, names), keep))
    return [(script, found[model]) for model, (_, script) in written.items()]


def _require_fit(results: Results) -> None:
    """Raise UsageError where scripts are of an operator that does not fit; the others are recorded by now."""
    if results.misplaced:
        raise UsageError(results.misplaced[0].reason)


def recorded(plan: ForeignPlan) -> list[tuple[ForeignScript, ForeignRecord]]:
    """The newest record of each script as it is now, of whichever GPU of the key measured it."""
    sha256 = finder_sha256()
    found = ((script, next(_records(plan, script, sha256), None)) for script in plan.scripts)
    return [(script, record) for script, record in found if record is not None]


def _records(plan: ForeignPlan, script: ForeignScript, finder: str) -> Iterator[ForeignRecord]:
    """A script's records that are of its present source and of this finder, the newest first."""
    path = path_of(plan.tree, plan.gpu.key, script.shape_key, script.model)
    wanted = script.name, script.sources_sha256, finder
    for record in reversed(read(path, ForeignRecord)[0]):
        if (record.script, record.sources_sha256, record.finder_sha256) == wanted:
            yield record


def finder_sha256() -> str:
    """Hash of the code that finds a script's kernel: another version may find another kernel."""
    here = Path(__file__).parent
    return hashlib.sha256("".join(source_sha256(here / name) for name in FINDER).encode()).hexdigest()


@dataclass(slots=True)
class _ForeignRun:
    """A bench as it runs: the outcomes so far, and the scripts without a findable kernel."""

    plan: ForeignPlan
    environment: Callable[[str], Environment]
    finder_sha256: str
    reporter: Reporter = field(init=False)
    known: dict[Path, ForeignRecord] = field(default_factory=dict)
    not_found: list[tuple[ForeignScript, str]] = field(default_factory=list)

    def knows(self, script: ForeignScript) -> bool:
        """Whether a new run would only repeat an outcome on record."""
        environment = self.environment(script.operator)
        records = _records(self.plan, script, self.finder_sha256)
        same = (record for record in records if record.environment == environment)
        found = fault_attribution.standing(same, self.plan.gpu)
        if found is not None:
            self.known[script.path] = found
        return found is not None

    def carry_out(self, waiting: Sequence[ForeignScript]) -> None:
        plan = self.plan
        prepare(plan.gpu, plan.device, self.reporter)
        self.not_found = [(each, each.unknown) for each in waiting if each.unknown is not None]
        with foreign_tree(plan.tree) as scratch:
            judgeable = [each for each in waiting if each.problem is not None]
            written = write(scratch, plan.root, plan.gpu, judgeable)
            self._judge(scratch, written)
            # A script that uses the device while it is loaded disturbs its neighbours. They get a turn alone.
            for iteration, script in written.values():
                known = self.known.get(script.path)
                if known is not None and known.cause is Cause.REFEREE:
                    self._judge(scratch, {iteration.model: (iteration, script)})
        for script, reason in self.not_found:
            heed()
            released(plan.device)
            self._run_by_itself(script, reason)

    def _judge(self, scratch: Tree, by_model: Mapping[str, tuple[Iteration, ForeignScript]]) -> None:
        plan = self.plan
        if not by_model:
            return

        def keep(record: Record) -> None:
            script = by_model[record.model][1]
            reason = placed(record, script, plan.root)
            if record.cause is Cause.LOAD:
                self.not_found.append((script, reason or ""))
                return
            same = {name: getattr(record, name) for name in ("stage", "cause", "build", "verification", "measurement")}
            self._keep(script, basis=Basis.JUDGED, status=record.status, reason=reason, **same)

        released(plan.device)
        iterations = tuple(iteration for iteration, _ in by_model.values())
        names = {model: str(script) for model, (_, script) in by_model.items()}
        judged = Plan(scratch, plan.gpu, plan.device, iterations, plan.settings, again=True)
        _require_fit(run(judged, _ScriptReporter(self.reporter, names), keep))

    def _run_by_itself(self, script: ForeignScript, reason: str) -> None:
        self.reporter.doing(f"running {script}")
        said, ended = self_report(self.plan.root, script.path, script.problem, self.plan.gpu, self.plan.deadline_s)
        status = Status.PASSED
        if said.time_ms is None:
            status, ended = Status.FAILED, ended or "it printed no figures, such as TFLOPS: 1.2 time_ms: 3.4"
        elif said.passed is False:
            status, ended = Status.FAILED, ended or "its own verification fails"
        ended = None if ended is None else printable(ended)
        self._keep(script, basis=Basis.SELF_REPORTED, status=status, reason=reason, said=said, ended=ended)

    def _keep(self, script: ForeignScript, **outcome: Any) -> None:
        record = ForeignRecord(
            schema=SCHEMA,
            recorded_at=now(),
            gpu=self.plan.gpu.key,
            shape_key=script.shape_key,
            model=script.model,
            script=script.name,
            number=script.number,
            tree=encodable(self.plan.root.resolve().name),
            sources_sha256=script.sources_sha256,
            finder_sha256=self.finder_sha256,
            environment=self.environment(script.operator),
            **outcome,
        )
        append(path_of(self.plan.tree, *record.ladder), record)
        again = script.path in self.known
        self.known[script.path] = record
        self.reporter.finished(line(script, record), advance=not again)


@dataclass(frozen=True, slots=True)
class _ScriptReporter:
    """Reports a run in the scratch tree under the scripts' own names; ``_keep`` reports the outcomes."""

    reporter: Reporter
    names: dict[str, str]  # by the model that a script stands under

    def doing(self, text: str) -> None:
        for model, name in self.names.items():
            if f"/{model}/" in text:
                text = f"{text.partition(' ')[0]} {name}"
        self.reporter.doing(text)

    def finished(self, text: str, *, advance: bool = True) -> None: ...


def line(script: ForeignScript, record: ForeignRecord) -> str:
    """One script's outcome, in one line."""
    status, measured = record.status, record.measurement
    passed = status is Status.PASSED
    if record.basis is Basis.SELF_REPORTED:
        time_ms = record.said.time_ms if record.said is not None else None
        told = f"{time_ms:.4g} ms by its own word" if passed and time_ms is not None else record.ended or ""
        return printable(f"{record.basis if passed else status:<13} {script}: {told}")
    if not passed or measured is None:
        return printable(f"{status:<13} {script}: {record.stage}: {record.reason}")
    return f"{status:<13} {script}: {measured.time_ms:.4g} ms, ratio {bounded(measured)}"


def placed(record: Record, script: ForeignScript, root: Path) -> str | None:
    """Why a script failed, with the script's own line in place of its loader's."""
    if record.reason is None:
        return None
    reason = record.reason.partition(f" ({record.attempt};")[0]  # a script has no budget of attempts
    reason = reason.partition(f", at {record.iteration}.py:")[0].removeprefix(NOT_FOUND)
    frames = [frame for frame in traced(record.traceback or "") if frame[0] == str(script.path)]
    if not frames and record.cause is not Cause.COMPILE:
        return reason
    return UserCode(script.path, root).located(reason, frames, () if frames else words_of(reason))
