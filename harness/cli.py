"""The command line: one verb a function, one place that turns errors into exit codes."""

import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Annotated, NoReturn

import cyclopts
import msgspec
from cyclopts import App, Parameter

from harness import __version__, doctor, gpus, leaderboard, scaffold, selftest, tables
from harness.candidate import Settings, default_budget_s
from harness.errors import ExitCode, TilebenchError, UsageError
from harness.progress import console, reporting
from harness.records import Stage
from harness.run import Plan, Results
from harness.run import run as carry_out
from harness.tree import Selection, Tree

app = App(
    name="tilebench",
    version=__version__,
    help="Judge hand-tuned TileLang kernels: right or wrong, how fast against the library, and which one leads.",
    help_on_error=False,
    suppress_keyboard_interrupt=False,
)


@Parameter(name="*")
@dataclass(frozen=True)
class Choice:
    """What to work on."""

    gpu: Annotated[str, Parameter(help="GPU key, or auto: the GPU of this machine, cpu where there is none.")] = "auto"
    shape: Annotated[str | None, Parameter(help="Only this shape key, such as matmul_bf16fp32_8192x8192x8192.")] = None
    model: Annotated[str | None, Parameter(help="Only this model's iterations.")] = None
    iter: Annotated[str | None, Parameter(name="--iter", help="Only this iteration: 3, 003 or iter003.")] = None
    json: Annotated[bool, Parameter(negative="", help="One JSON document on stdout, all else on stderr.")] = False

    @property
    def selection(self) -> Selection:
        return Selection(self.shape, self.model, self.iter)


@Parameter(name="*")
@dataclass(frozen=True)
class Manner:
    """How to measure."""

    force: Annotated[bool, Parameter(negative="", help="Run a key that is not this GPU's; its records stay apart.")] = (
        False
    )
    again: Annotated[bool, Parameter(negative="", help="Measure again what is recorded already.")] = False
    budget: Annotated[
        float | None, Parameter(help="Seconds of device time for one measurement at most; 3 on a GPU, 1 on a CPU.")
    ] = None
    deadline: Annotated[float, Parameter(help="Seconds for one answer of a kernel at most.")] = 30.0
    build_deadline: Annotated[float, Parameter(help="Seconds for loading and compiling at most.")] = 180.0

    def settings(self, gpu: gpus.Gpu) -> Settings:
        """The settings of a measurement on a GPU."""
        for name, seconds in (
            ("budget", self.budget),
            ("deadline", self.deadline),
            ("build-deadline", self.build_deadline),
        ):
            if seconds is not None and not 0 < seconds < float("inf"):
                raise UsageError(f"--{name} {seconds:g} is not a number of seconds above 0")
        return Settings(
            budget_s=default_budget_s(gpu) if self.budget is None else self.budget,
            launch_deadline_s=self.deadline,
            build_deadline_s=self.build_deadline,
        )


@app.command
def check(choice: Choice = Choice()) -> ExitCode:
    """Check the contract on the sources, without importing them."""
    return _report(_run(choice, Stage.CONTRACT), choice)


@app.command
def build(choice: Choice = Choice()) -> ExitCode:
    """Compile every iteration for its GPU's architecture; needs no GPU."""
    return _report(_run(choice, Stage.BUILD), choice)


@app.command
def verify(choice: Choice = Choice(), manner: Manner = Manner()) -> ExitCode:
    """Prove iterations right: random, exact and refreshed trials against the reference."""
    return _report(_run(choice, Stage.VERIFY, manner), choice)


@app.command
def bench(choice: Choice = Choice(), manner: Manner = Manner()) -> ExitCode:
    """Verify and time iterations against the library, and print the leaderboard."""
    results = _run(choice, Stage.BENCH, manner)
    if choice.json:
        return _report(results, choice)
    key = results.records[0].gpu if results.records else _key(choice)
    _print_boards(key, choice)
    return results.exit_code


@app.command(name="leaderboard")
def show(
    choice: Choice = Choice(), *, format: Annotated[str, Parameter(help="A tabulate format.")] = "simple"
) -> ExitCode:
    """Print the leaderboard of what is recorded; measures nothing."""
    _print_boards(_key(choice), choice, format)
    return ExitCode.PASSED


@app.command
def new(
    choice: Choice = Choice(),
    *,
    parent: Annotated[str | None, Parameter(help="The iteration to start from; the newest where not given.")] = None,
    tag: Annotated[str, Parameter(help="The new iteration's tag.")] = "next_idea",
) -> ExitCode:
    """Write the next iteration, numbered, with a parent, ready to edit."""
    if choice.shape is None or choice.model is None:
        raise UsageError("new needs --shape and --model, e.g. --shape matmul_bf16fp32_4096x4096x4096 --model me")
    path = scaffold.new(Tree.here(), _key(choice), choice.shape, choice.model, parent, tag)
    if choice.json:
        _emit({"path": path})
    else:
        print(Tree.here().short(path))
    return ExitCode.PASSED


@app.command(name="selftest")
def measure_itself(
    choice: Choice = Choice(),
    *,
    runs: Annotated[int, Parameter(help="Measurements of the library against itself, of each problem.")] = 10,
    kills: Annotated[int, Parameter(help="Runs to kill at a random moment.")] = 5,
    pace: Annotated[bool, Parameter(help="Time the ladder against its scripts run by hand.")] = True,
) -> ExitCode:
    """Measure the harness: library against itself, killed runs, time saved; of the first problem, or of --shape."""
    tree = Tree.here()
    gpu, device = gpus.resolve(choice.gpu)
    iterations, _ = tree.scan(gpu.key, Selection(choice.shape, choice.model, "0"))
    if not iterations:
        raise UsageError(f"no iter000 under tuning/{gpu.key}/ matches {tables.chosen(choice.selection)}")
    first = iterations[0]
    findings: dict[str, object] = {}
    with reporting(3) as reporter:
        if kills:
            broken = selftest.interruption.interrupt(tree, gpu.key, first.shape_key, kills, reporter)
            findings["interruption"] = broken
            reporter.finished(selftest.interruption.line(broken))
        if pace:
            timed = selftest.pace.compare(tree, gpu.key, first.shape_key, reporter)
            findings["pace"] = timed
            reporter.finished(selftest.pace.line(timed))
        if runs:
            chosen = iterations if choice.shape else iterations[:1]
            agreed = selftest.agreement.repeat(tree, gpu, device, chosen, runs, reporter)
            findings["agreement"] = agreed
    if choice.json:
        _emit(findings)
    elif runs:
        print(selftest.agreement.table(agreed))
    return ExitCode.REJECTED if kills and not broken.sound else ExitCode.PASSED


@app.command(name="doctor")
def examine(choice: Choice = Choice()) -> ExitCode:
    """Say what this machine has, what is missing, and what to do about it."""
    findings = doctor.examine()
    if choice.json:
        _emit(findings)
    else:
        print(doctor.table(findings))
    return ExitCode.PASSED if all(each.ok for each in findings if each.needed) else ExitCode.INFRASTRUCTURE


def main() -> NoReturn:
    """Entry point of ``tilebench`` and of ``python -m harness``."""
    sys.exit(int(guarded(lambda: app(exit_on_error=False, print_error=False, result_action="return_value"))))


def guarded(command: Callable[[], object]) -> ExitCode:
    """Run a command; every error that a person can cause or cure becomes one line on stderr and an exit code."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = command()
    except cyclopts.CycloptsError as error:
        return _complain(" ".join(str(error).split()), ExitCode.USAGE)
    except TilebenchError as error:
        return _complain(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _complain(
            "stopped; what was measured is recorded, and the same command continues", ExitCode.INFRASTRUCTURE
        )
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _complain(f"{where}{error.strerror or error}", ExitCode.INFRASTRUCTURE)
    return code if isinstance(code, ExitCode) else ExitCode.PASSED


def _run(choice: Choice, upto: Stage, manner: Manner = Manner()) -> Results:
    tree = Tree.here()
    needs_device = upto in (Stage.VERIFY, Stage.BENCH)
    gpu, device = gpus.resolve(choice.gpu, force=manner.force) if needs_device else (gpus.find(_key(choice)), None)
    if needs_device and choice.gpu == gpus.AUTO:
        console.print(
            f"GPU key {gpu.key}: {device.name if device else 'no NVIDIA GPU found, the CPU runs the pipeline'}"
        )
    if needs_device and (written := scaffold.starter(tree, gpu)):
        console.print(
            f"tuning/{gpu.key}/ had no iterations; a starter ladder of {len(written)} files was written there"
        )
    iterations, misplaced = tree.scan(gpu.key, choice.selection)
    if not iterations and not misplaced:
        raise UsageError(f"no iteration under tuning/{gpu.key}/ matches {tables.chosen(choice.selection)}")
    plan = Plan(
        tree=tree,
        gpu=gpu,
        device=device,
        iterations=tuple(iterations),
        misplaced=tuple(misplaced),
        upto=upto,
        settings=manner.settings(gpu),
        again=manner.again,
    )
    with reporting(len(iterations)) as reporter:
        return carry_out(plan, reporter)


def _key(choice: Choice) -> str:
    return gpus.detect() if choice.gpu == gpus.AUTO else gpus.find(choice.gpu).key


def _report(results: Results, choice: Choice) -> ExitCode:
    if choice.json:
        _emit({"records": results.records, "misplaced": [each.reason for each in results.misplaced]})
    else:
        passed = sum(record.status == "passed" for record in results.records)
        reused = f", {results.reused} of them recorded before" if results.reused else ""
        print(f"{passed} of {len(results.records)} passed{reused}")
    return results.exit_code


def _print_boards(key: str, choice: Choice, table_format: str = "simple") -> None:
    boards, complaints = leaderboard.boards(Tree.here(), key, choice.selection)
    for complaint in complaints:
        console.print(complaint, markup=False)
    if choice.json:
        _emit([row for board in boards for row in board.rows])
        return
    if not boards:
        raise UsageError(f"no iteration under tuning/{key}/ matches {tables.chosen(choice.selection)}")
    print("\n".join(tables.leaderboard(board, table_format) for board in boards))


def _emit(document: object) -> None:
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(document, enc_hook=str), indent=2) + b"\n")
    sys.stdout.buffer.flush()


def _complain(text: str, code: ExitCode) -> ExitCode:
    console.print(f"tilebench: {text}", markup=False)
    return code


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
