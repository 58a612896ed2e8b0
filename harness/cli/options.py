"""Options that verbs share: what to work on, and how to measure."""

from dataclasses import dataclass, replace
from typing import Annotated

from cyclopts import Parameter

from harness.catalog import gpus
from harness.catalog.tree import Selection
from harness.errors import UsageError
from harness.judge.candidate import Settings
from harness.judge.facts.gpu import Gpu


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
    def key(self) -> str:
        """The GPU key, found out where it is ``auto``."""
        return gpus.detect() if self.gpu == gpus.AUTO else gpus.find(self.gpu).key

    @property
    def selection(self) -> Selection:
        return Selection(self.shape, self.model, self.iter)


@Parameter(name="*")
@dataclass(frozen=True)
class Building:
    """How to compile."""

    again: Annotated[bool, Parameter(negative="", help="Compile again what is recorded already.")] = False
    attempts: Annotated[int, Parameter(help="Sources of one iteration that may fail to compile.")] = 5
    build_deadline: Annotated[float, Parameter(help="Seconds for loading and compiling at most.")] = 180.0

    def settings(self, gpu: Gpu) -> Settings:
        """The settings of a build for a GPU."""
        check_seconds("build-deadline", self.build_deadline)
        check_least("attempts", self.attempts, 1)
        return replace(Settings.of(gpu), build_deadline_s=self.build_deadline, attempts=self.attempts, again=self.again)


@Parameter(name="*")
@dataclass(frozen=True)
class Manner:
    """How to measure."""

    force: Annotated[bool, Parameter(negative="", help="Run a key that is not this GPU's; its records stay apart.")] = (
        False
    )
    again: Annotated[bool, Parameter(negative="", help="Compile and measure again what is recorded already.")] = False
    budget: Annotated[
        float | None, Parameter(help="Seconds of device time for one measurement at most; 3 on a GPU, 1 on a CPU.")
    ] = None
    deadline: Annotated[float, Parameter(help="Seconds for one answer of a kernel at most.")] = 30.0
    build_deadline: Annotated[float, Parameter(help="Seconds for loading and compiling at most.")] = 180.0
    attempts: Annotated[int, Parameter(help="Sources of one iteration that may fail to compile.")] = 5

    def settings(self, gpu: Gpu) -> Settings:
        """The settings of a measurement on a GPU."""
        for name, seconds in (
            ("budget", self.budget),
            ("deadline", self.deadline),
            ("build-deadline", self.build_deadline),
        ):
            if seconds is not None:
                check_seconds(name, seconds)
        check_least("attempts", self.attempts, 1)
        return replace(
            Settings.of(gpu, self.budget),
            launch_deadline_s=self.deadline,
            build_deadline_s=self.build_deadline,
            attempts=self.attempts,
            again=self.again,
        )


def check_seconds(name: str, seconds: float) -> None:
    """Raises UsageError."""
    if not 0 < seconds < float("inf"):
        raise UsageError(f"--{name} {seconds:g} is not a number of seconds above 0")


def check_least(name: str, number: int, least: int) -> None:
    """Raises UsageError."""
    if number < least:
        raise UsageError(f"--{name} {number} is not a number of {least} or more")
