"""TileLang's own autotuner over one family's space, in a child process that reports every candidate it times.

``tilelang.autotuner.AutoTuner`` compiles, checks, times and picks. It gets kernels, inputs and options from here. It
prints the time of a configuration and forgets it, so a subclass reports each measurement.
"""

import inspect
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from cyclopts import Parameter

from harness.catalog.families import COMPILED
from harness.errors import described
from harness.extras.tune.space import Config, frozen
from harness.extras.tune.survey import attributed, load_family
from harness.judge.child.body import child_body
from harness.judge.child.brief import Brief
from harness.judge.child.inputs import inputs
from harness.judge.facts.problem import Problem
from harness.judge.messages import Message, Trouble, send
from harness.machine.ranges import AT_LEAST_1, NUMBER, POSITIVE, SHARE

# The autotuner reserves the first name in a configuration, and passes it to its compile function under the second.
PASS_CONFIGS: Final = "pass_configs"
_PASSED: Final = "__pass_configs__"


@Parameter(name="*", group="TileLang's own autotuner, --engine tilelang")
@dataclass(frozen=True, slots=True)
class AutotunerOptions:
    """Options of TileLang's autotuner, under the names that TileLang gives them."""

    warmup: Annotated[int, NUMBER, Parameter(help="Launches before a candidate is timed.")] = 25
    rep: Annotated[int, AT_LEAST_1, Parameter(help="Launches that are timed.")] = 100
    timeout: Annotated[int, AT_LEAST_1, Parameter(help="Seconds for one candidate.")] = 30
    supply: Annotated[
        Literal["inputs", "program", "Integer", "Uniform", "Normal", "Randn", "Zero", "One", "Auto"] | None,
        Parameter(help="set_autotune_inputs, a supply program, or a TensorSupplyType; by default what fits."),
    ] = None
    check: Annotated[bool, Parameter(help="Compare with the reference; its disk cache then keeps nothing.")] = True
    rtol: Annotated[float, NUMBER, Parameter(help="Relative tolerance of its check.")] = 1e-2
    atol: Annotated[float, NUMBER, Parameter(help="Absolute tolerance of its check.")] = 1e-2
    max_mismatched_ratio: Annotated[float, SHARE, Parameter(help="Share of the elements that may differ.")] = 0.01
    early_stop: Annotated[bool, Parameter(help="Stop timing what is slower than the best by a factor.")] = False
    early_stop_factor: Annotated[float, AT_LEAST_1, Parameter(help="That factor.")] = 2.0
    backend: Annotated[Literal["event", "cupti", "cudagraph"], Parameter(help="Its timer; on a CPU wall.")] = "event"
    cache: Annotated[bool, Parameter(help="Use its disk caches.")] = True
    limit: Annotated[float, POSITIVE, Parameter(help="Seconds for the whole search.")] = 1800.0


class Timed(Message, frozen=True):
    """One configuration's latency by the autotuner's profiler, or a reason; ``index`` is its place in the space."""

    index: int
    latency_ms: float | None
    reason: str = ""


class Picked(Message, frozen=True):
    """The autotuner's pick; ``cached`` if its disk cache held the answer and nothing was timed."""

    index: int
    latency_ms: float | None
    cached: bool


@dataclass(frozen=True, slots=True)
class AutotunerOrder:
    """What the child process searches; ``device`` and ``families_sha256`` are part of the key of its disk cache."""

    brief: Brief
    family: str
    families_sha256: str
    device: str
    configs: tuple[Config, ...]
    options: AutotunerOptions
    folder: Path


def run_autotuner(order: AutotunerOrder, parent: Connection) -> None:
    """Body of the process; the autotuner's log and output go to the order's folder."""
    lock = threading.Lock()

    def tell(message: Message) -> None:
        with lock:
            send(parent, message)

    def gave_up(error: BaseException) -> Message:
        lock.acquire()  # for good: a thread of the autotuner may still be sending
        return Trouble(attributed(error, order.brief.root))

    with child_body(order.brief, parent, gave_up):
        from harness.judge.child.setup import work_in

        work_in(order.folder)
        tell(search(order, tell))


def search(order: AutotunerOrder, tell: Callable[[Message], None]) -> Picked:
    """Run the autotuner; raises what it raises."""
    import tilelang
    from tilelang.autotuner import AutoTuner
    from tqdm import tqdm

    from harness.judge.child.kernel import target_of

    problem, options = order.brief.problem, order.options
    tqdm.set_lock(threading.RLock())  # its own lock is a semaphore of the machine, which would be left behind
    outcomes = _Outcomes(order, tell)
    if not options.cache:
        tilelang.env.disable_cache()
    program = program_of(order.family, problem)
    tuner: Any = _reporting(AutoTuner, outcomes).from_kernel(
        signed(problem.shape_key, order.family, order.families_sha256, order.device, order.configs),
        [dict(config) for config in order.configs],
    )
    outputs = [*range(len(problem.inputs), len(problem.tensors))]
    tuner.set_compile_args(out_idx=outputs, target=target_of(order.brief.gpu))
    tuner.jit_compile = outcomes.of_compiling(compiler(program, tuner))
    tuner.jit_elaborate = lambda **config: program(**config).prim_func
    _set_profile(tuner, order, "program" if program(**order.configs[0]).workspaces else "inputs")
    result = tuner.run(**_named(options, "warmup", "rep", "timeout", "early_stop", "early_stop_factor"))
    index = outcomes.index_of(frozen(result.config))
    outcomes.finish(index)
    return Picked(index, result.latency, cached=not outcomes.told)


def _named(options: AutotunerOptions, *names: str) -> dict[str, Any]:
    return {name: getattr(options, name) for name in names}


def _set_profile(tuner: Any, order: AutotunerOrder, default_supply: str) -> None:
    """Say how the autotuner times and checks, and where its inputs come from."""
    import tilelang
    from tilelang.autotuner import set_autotune_inputs

    problem, options, cpu = order.brief.problem, order.options, order.brief.gpu.is_cpu
    supply = options.supply or default_supply
    tensors = inputs(problem, "cpu" if cpu else "cuda")
    profile = _named(options, "warmup", "rep", "timeout", "rtol", "atol", "max_mismatched_ratio") | {
        # Its check and its event timer synchronize a GPU; on a CPU there is the wall clock and no check.
        "skip_check": cpu or not options.check,
        "ref_prog": reference(problem) if options.check and not cpu else None,
        "backend": "wall" if cpu else options.backend,
    }
    if supply == "inputs":
        with set_autotune_inputs(*tensors):
            tuner.set_profile_args(**profile)
    elif supply == "program":
        tuner.set_profile_args(supply_prog=supplying(tensors), **profile)
    else:
        tuner.set_profile_args(supply_type=tilelang.TensorSupplyType[supply], **profile)


def program_of(family: str, problem: Problem) -> Callable[..., Any]:
    """A function from a configuration to its Program, with the compiler levers applied as a pinned iteration does."""
    function, levers = load_family(family)
    compiled, _ = load_family(COMPILED)
    tracing = threading.Lock()  # Python 3.11 may fail where threads read sources at once: python/cpython#106905

    def program(**config: Any) -> Any:
        config.pop(_PASSED, None)
        own = {name: value for name, value in config.items() if name in levers}
        with tracing:
            return compiled(function, problem, **own, **{n: v for n, v in config.items() if n not in levers})

    return program


def compiler(program: Callable[..., Any], tuner: Any) -> Callable[..., Any]:
    """A function that compiles one configuration; the autotuner's own takes no compile flags."""
    import tilelang

    def compile_one(**config: Any) -> Any:
        passes = config.pop(_PASSED, None) or {}
        made = program(**config)
        return tilelang.compile(
            made.prim_func,
            out_idx=tuner.compile_args.out_idx,
            target=tuner.compile_args.target,
            execution_backend=tuner.compile_args.execution_backend,
            pass_configs={**made.pass_configs, **passes} or None,
            compile_flags=list(made.compile_flags) or None,
        )

    return compile_one


def signed(
    shape_key: str, family: str, families_sha256: str, device: str, configs: Sequence[Config]
) -> Callable[..., Any]:
    """A function that takes the space's levers by name.

    The autotuner reads the levers from its signature and the key of its cache from its closure. So the closure holds
    all that keeps results of other problems, sources and devices apart.
    """

    def kernel(**config: Any) -> Any:
        return shape_key, family, families_sha256, device

    names = dict.fromkeys(name for config in configs for name in config if name != PASS_CONFIGS)
    kernel.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
    )
    return kernel


def supplying(tensors: Sequence[Any]) -> Callable[[Sequence[Any]], list[Any]]:
    """A supply program: the inputs, and zeros for the workspaces that follow."""
    import torch

    def supply(parameters: Sequence[Any]) -> list[Any]:
        rest = parameters[len(tensors) :]
        zeros = [torch.zeros([int(n) for n in p.shape], dtype=p.torch_dtype(), device=tensors[0].device) for p in rest]
        return [*tensors, *zeros]

    return supply


def reference(problem: Problem) -> Callable[..., Any]:
    """The referee's own reference, in the outputs' dtypes, for the autotuner's tolerances."""
    import torch

    from harness.judge.child import trials

    def outputs(*tensors: Any) -> Any:
        found = trials.references(problem, tensors[: len(problem.inputs)])
        made = [each.to(getattr(torch, dtype)) for each, (_, dtype) in zip(found, problem.outputs, strict=True)]
        return made[0] if len(made) == 1 else made

    return outputs


class _Outcomes:
    """Reports the outcome of each configuration once. Several configurations may give one kernel."""

    def __init__(self, order: AutotunerOrder, tell: Callable[[Message], None]) -> None:
        self._order = order
        self._configs = order.configs
        self._tell = tell
        self._of_kernel: dict[int, list[int]] = {}
        self.told: set[int] = set()

    def index_of(self, config: Config) -> int:
        bare = {name: value for name, value in config.items() if name != _PASSED}
        passes = config.get(_PASSED)
        return self._configs.index({**bare, PASS_CONFIGS: passes} if passes else bare)

    def of_compiling(self, compile_one: Callable[..., Any]) -> Callable[..., Any]:
        """The compile function, with its failures reported."""

        def compile_and_note(**config: Any) -> Any:
            index = self.index_of(frozen(config))
            try:
                kernel = compile_one(**config)
            except Exception as error:
                what = described(error, 300)
                self._outcome(index, None, attributed(error, self._order.brief.root, self._order.family, what))
                raise
            self._of_kernel.setdefault(id(kernel), []).append(index)
            return kernel

        return compile_and_note

    def of_kernel(self, kernel: Any, latency_ms: float | None, reason: str = "") -> None:
        for index in self._of_kernel.get(id(kernel), ()):
            self._outcome(index, latency_ms, reason)

    def finish(self, picked: int) -> None:
        """Report the configurations without an outcome as timed out; after a pick from the cache, none was timed."""
        for index in range(len(self._configs)) if self.told else ():
            if index != picked:
                self._outcome(index, None, "no answer within the autotuner's timeout")

    def _outcome(self, index: int, latency_ms: float | None, reason: str) -> None:
        if index not in self.told:
            self.told.add(index)
            self._tell(Timed(index, latency_ms, reason))


def _reporting(base: type, outcomes: _Outcomes) -> Any:
    """The autotuner's class, with each measurement reported as it is made."""

    class ReportingAutotuner(base):  # type: ignore[misc]
        def _benchmark_target(self, jit_kernel: Any, *rest: Any, **more: Any) -> Any:
            try:
                found = super()._benchmark_target(jit_kernel, *rest, **more)
            except Exception as error:
                outcomes.of_kernel(jit_kernel, None, described(error, 300))
                raise
            outcomes.of_kernel(jit_kernel, float(found[0]))
            return found

    return ReportingAutotuner
