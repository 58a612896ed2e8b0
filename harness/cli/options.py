"""Options that verbs share: what to work on, how to compile, how to measure."""

import os
from dataclasses import dataclass, replace
from typing import Annotated, Final

from cyclopts import Parameter

from harness.catalog import gpus
from harness.catalog.problem_sets import ProblemSet, problem_set
from harness.catalog.share import Share
from harness.catalog.tree import Selection, Tree
from harness.errors import UsageError
from harness.judge.candidate import Settings
from harness.judge.facts.device_rules import CPU_RULES, GPU_RULES
from harness.judge.facts.gpu import CPU, Gpu
from harness.machine.ranges import AT_LEAST_1, POSITIVE
from harness.machine.table import check_format

_DEFAULTS: Final = Settings(budget_s=0.0)  # the budget depends on the device
EXAMPLE: Final = "matmul_bf16fp32_4096x4096x4096"
CPU_EXAMPLE: Final = "matmul_f32fp32_1024x1024x1024"
GpuKey = Annotated[str, Parameter(help="GPU key; auto takes this machine's GPU, or cpu where it has none.")]
Json = Annotated[bool, Parameter(negative="", help="Print one JSON document on stdout, all else on stderr.")]
Traceback = Annotated[bool, Parameter(negative="", help="Show all that Python and the compilers said of a failure.")]
TableFormat = Annotated[
    str, Parameter(help="A table format of the package tabulate.", validator=lambda _, name: check_format(name))
]
Budget = Annotated[
    float | None,
    POSITIVE,
    Parameter(
        help=f"Seconds of device time for one measurement; {GPU_RULES.budget_s:g} on a GPU and "
        f"{CPU_RULES.budget_s:g} on a CPU."
    ),
]
Parent = Annotated[
    str | None,
    Parameter(name=("--from", "--parent"), help="The parent of the new iteration; by default the best that passed."),
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SelectionOptions:
    """What to work on."""

    gpu: GpuKey = gpus.AUTO
    shape: Annotated[
        str | None,
        Parameter(help="Only this shape key, such as matmul_bf16fp32_8192x8192x8192; matmul takes all of an operator."),
    ] = None
    model: Annotated[str | None, Parameter(help="Only the iterations of this model.")] = None
    iter: Annotated[
        str | None, Parameter(name="--iter", help="Only this iteration: 3, 003, iter003 or its whole name.")
    ] = None
    share: Annotated[
        str | None, Parameter(help="Only this share of the problems: 2/8 is the second of eight equal ones.")
    ] = None
    set: Annotated[
        str | None,
        Parameter(
            help="Only the problems of this set: a shipped one, such as llama3-8b-decode, or one of problems.toml."
        ),
    ] = None
    json: Json = False

    def __post_init__(self) -> None:
        """Raise UsageError where the share or the set is none, before a verb does anything."""
        _ = self.selection

    @property
    def key(self) -> str:
        """The GPU key; ``auto`` is replaced by this machine's."""
        return gpus.detect() if self.gpu == gpus.AUTO else gpus.find(self.gpu).key

    @property
    def selection(self) -> Selection:
        share = Share.parse(self.share) if self.share is not None else None
        shapes = frozenset(self.problem_set.calls) if self.problem_set else None
        return Selection(self.shape, self.model, self.iter, share, self.set, shapes)

    @property
    def problem_set(self) -> ProblemSet | None:
        return None if self.set is None else problem_set(Tree.here().root, self.set)

    def ladder(self, verb: str, why_no_iter: str, *, reads: bool = False) -> tuple[str, str]:
        """Shape key and model of the one ladder that a verb needs; one that only ``reads`` finds an only model itself.

        Raises UsageError.
        """
        self.one_problem(verb)
        model = self.model or (self._only_model() if reads else None)
        if self.shape is None or model is None:
            example = f"--shape {self.shape or self.example} --model me"
            raise UsageError(f"{verb} needs --shape and --model, e.g. {example}")
        if self.iter is not None:
            raise UsageError(f"{verb} {why_no_iter}; leave --iter out")
        if self.share is not None or self.set is not None:
            raise UsageError(f"{verb} works on one problem; leave --{'share' if self.share else 'set'} out")
        return self.shape, model

    @property
    def names_operator(self) -> bool:
        """Whether the shape is an operator's name: that has no underscore."""
        return self.shape is not None and "_" not in self.shape

    def one_problem(self, verb: str, option: str = "--shape") -> None:
        """Raise UsageError where the shape is an operator's name."""
        if self.names_operator:
            raise UsageError(
                f"{verb} works on one problem; {option} {self.shape} is no shape key, such as {self.example}"
            )

    @property
    def example(self) -> str:
        """A shape key that the GPU key may have."""
        return CPU_EXAMPLE if self.key == CPU else EXAMPLE

    def _only_model(self) -> str | None:
        """The model of the shape's iterations, where it is one."""
        found, _ = Tree.here().scan(self.key, Selection(self.shape)) if self.shape is not None else ([], [])
        models = {each.model for each in found}
        return models.pop() if len(models) == 1 else None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """How to compile."""

    again: Annotated[bool, Parameter(negative="", help="Repeat outcomes that are already recorded.")] = False
    attempts: Annotated[int, AT_LEAST_1, Parameter(help="Sources of one iteration that may fail to compile.")] = (
        _DEFAULTS.attempts
    )
    build_deadline: Annotated[float, POSITIVE, Parameter(help="Seconds for import and compilation.")] = (
        _DEFAULTS.build_deadline_s
    )

    def settings(self, gpu: Gpu) -> Settings:
        """The judge's settings for a GPU."""
        return replace(Settings.of(gpu), build_deadline_s=self.build_deadline, attempts=self.attempts, again=self.again)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class MeasureOptions(BuildOptions):
    """How to compile and to measure."""

    force: Annotated[
        bool, Parameter(negative="", help="Use a key that is not this GPU's; such records are ranked apart.")
    ] = False
    budget: Budget = None
    deadline: Annotated[float, POSITIVE, Parameter(help="Seconds for one answer of a kernel's process.")] = (
        _DEFAULTS.launch_deadline_s
    )

    def settings(self, gpu: Gpu) -> Settings:
        budget_s = Settings.of(gpu, self.budget).budget_s
        return replace(super().settings(gpu), budget_s=budget_s, launch_deadline_s=self.deadline)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOptions(MeasureOptions):
    """How to compile, to measure, and what not to repeat."""

    any_chip: Annotated[
        bool, Parameter(negative="", help="Do not repeat what another chip of the same GPU has measured.")
    ] = False


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class FleetOptions:
    """On how many GPUs."""

    gpus: Annotated[
        str | None, Parameter(help="How many GPUs of this host with this key to use: all, or a number.")
    ] = None
    cluster: Annotated[
        str | None,
        Parameter(
            help="Work on all GPUs of a Ray cluster, such as ray://head:10001; --gpus all also reads RAY_ADDRESS."
        ),
    ] = None
    slow_gpus: Annotated[
        bool, Parameter(negative="", help="Also use GPUs that heat slows down, or that are 5% slower than the others.")
    ] = False
    image: Annotated[
        str | None,
        Parameter(help="Run each problem in this container image, on its own GPU; needs --gpus or --cluster."),
    ] = None

    def __post_init__(self) -> None:
        """Raise UsageError where an image is named for one GPU."""
        if self.image is not None and not self.wanted:
            raise UsageError(f"--image is for --gpus or --cluster; on one GPU: run-in-docker --image {self.image} VERB")

    @property
    def wanted(self) -> bool:
        return self.gpus is not None or self.cluster is not None

    @property
    def address(self) -> str | None:
        """Of the cluster; None where Ray is to be started on this host, or is not wanted."""
        return (self.cluster or os.environ.get("RAY_ADDRESS") or None) if self.wanted else None

    @property
    def place(self) -> tuple[str | None, int | None, bool, str | None]:
        """Where and how the driver finds its GPUs, in the order of its fields."""
        return self.address, self.most, self.slow_gpus, self.image

    @property
    def most(self) -> int | None:
        """How many GPUs of this host at most; None for all. Raises UsageError."""
        if self.gpus in (None, "all"):
            return None
        if not (self.gpus.isascii() and self.gpus.isdigit() and int(self.gpus) > 0):
            raise UsageError(f"--gpus {self.gpus} is neither all nor a number of 1 or more")
        if self.address is not None:
            raise UsageError(f"--gpus {self.gpus}: of the cluster {self.address} all GPUs are used; give --gpus all")
        return int(self.gpus)
