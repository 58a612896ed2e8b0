"""TileLang's own autotuner over one family's space, in a child process that tells every candidate it has timed.

``tilelang.autotuner.AutoTuner`` compiles, checks, times and picks; here it only gets its kernels, its inputs and its
options. What each configuration took it prints and forgets, so the class is asked where it measures.
"""

import inspect
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from harness.errors import described, printable
from harness.extras.tune.child import keep_to
from harness.extras.tune.space import Config, frozen
from harness.judge.child.body import child_body
from harness.judge.child.brief import Brief
from harness.judge.child.inputs import inputs
from harness.judge.facts.problem import Problem
from harness.judge.messages import Message, send

# Reserved by the autotuner in a configuration, and what it calls it in the arguments of its compile function.
PASS_CONFIGS: Final = "pass_configs"
_PASSED: Final = "__pass_configs__"
COMPILED: Final = "kernels.compiled.compiled"


@dataclass(frozen=True, slots=True)
class AutotunerOptions:
    """The autotuner's options under its own names; ``supply`` is inputs, program, or one of its TensorSupplyTypes."""

    warmup: int = 25
    rep: int = 100
    timeout: int = 30
    supply: str | None = None
    check: bool = True
    rtol: float = 1e-2
    atol: float = 1e-2
    max_mismatched_ratio: float = 0.01
    early_stop: bool = False
    early_stop_factor: float = 2.0
    backend: str = "event"
    cache: bool = True


class Timed(Message, frozen=True):
    """One configuration, by its place in the space: its latency in ms by the autotuner's profiler, or why none."""

    index: int
    latency_ms: float | None
    reason: str = ""


class Picked(Message, frozen=True):
    """The autotuner's pick; ``cached`` where its disk cache held the answer and nothing was timed."""

    index: int
    latency_ms: float | None
    cached: bool


class GaveUp(Message, frozen=True):
    """The autotuner raised."""

    reason: str


@dataclass(frozen=True, slots=True)
class Order:
    """What the child is told; ``device`` and ``families_sha256`` make its disk cache tell devices and sources apart."""

    brief: Brief
    family: str
    families_sha256: str
    device: str
    configs: tuple[Config, ...]
    options: AutotunerOptions
    folder: Path


def run_autotuner(order: Order, parent: Connection) -> None:
    """Body of the process; the autotuner writes its autotuner.log, and all it prints, into the order's folder."""
    lock = threading.Lock()

    def tell(message: Message) -> None:
        with lock:
            send(parent, message)

    def gave_up(error: BaseException) -> Message:
        lock.acquire()  # for good: a thread of the autotuner's may still be sending
        return GaveUp(described(error))

    with child_body(order.brief, parent, gave_up):
        keep_to(order.folder)
        tell(search(order, tell))


def search(order: Order, tell: Callable[[Message], None]) -> Picked:
    """Run the autotuner; raises what it raises."""
    import tilelang
    from tilelang.autotuner import AutoTuner, set_autotune_inputs
    from tqdm import tqdm

    from harness.judge.child.kernel import target_of

    problem, options, cpu = order.brief.problem, order.options, order.brief.gpu.is_cpu
    tqdm.set_lock(threading.RLock())  # its own is a semaphore of the machine, which nobody would give back
    heard = _Heard(order.configs, tell)
    if not options.cache:
        tilelang.env.disable_cache()
    program = program_of(order.family, problem)
    tuner: Any = _asked(AutoTuner, heard).from_kernel(
        signed(problem.shape_key, order.family, order.families_sha256, order.device, order.configs),
        [dict(config) for config in order.configs],
    )
    tuner.set_compile_args(out_idx=[len(problem.inputs)], target=target_of(order.brief.gpu))
    tuner.jit_compile = heard.noting_failures(compiler(program, tuner))
    tuner.jit_elaborate = lambda **config: program(**config).prim_func
    supply = options.supply or ("program" if program(**order.configs[0]).workspaces else "inputs")
    named = supply in tilelang.TensorSupplyType.__members__
    tensors = inputs(problem, "cpu" if cpu else "cuda")
    profile = {
        "warmup": options.warmup,
        "rep": options.rep,
        "timeout": options.timeout,
        "rtol": options.rtol,
        "atol": options.atol,
        "max_mismatched_ratio": options.max_mismatched_ratio,
        # Its check and its event timer both synchronize a GPU: on a CPU there is the wall clock, and no check.
        "skip_check": cpu or not options.check,
        "ref_prog": reference(problem) if options.check and not cpu else None,
        "backend": "wall" if cpu else options.backend,
    }
    if supply == "inputs":
        with set_autotune_inputs(*tensors):
            tuner.set_profile_args(**profile)
    elif supply == "program":
        tuner.set_profile_args(supply_prog=supplying(tensors), **profile)
    elif named:
        tuner.set_profile_args(supply_type=tilelang.TensorSupplyType[supply], **profile)
    else:
        known = ", ".join(tilelang.TensorSupplyType.__members__)
        raise ValueError(f"supply '{supply}' is not inputs, program, {known}")
    result = tuner.run(
        warmup=options.warmup,
        rep=options.rep,
        timeout=options.timeout,
        early_stop=options.early_stop,
        early_stop_factor=options.early_stop_factor,
    )
    index = heard.index_of(frozen(result.config))
    heard.rest(index)
    return Picked(index, result.latency, cached=not heard.told)


def program_of(family: str, problem: Problem) -> Callable[..., Any]:
    """The family with its compiler levers, as an iteration pins it: a configuration to its Program."""
    from harness.extras.tune.survey import load_family

    function, levers = load_family(family)
    compiled, _ = load_family(COMPILED)

    def program(**config: Any) -> Any:
        config.pop(_PASSED, None)
        own = {name: value for name, value in config.items() if name in levers}
        return compiled(function, problem, **own, **{n: v for n, v in config.items() if n not in levers})

    return program


def compiler(program: Callable[..., Any], tuner: Any) -> Callable[..., Any]:
    """Compiles one configuration; the autotuner's own way knows no compile flags."""
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

    The autotuner reads the names from its signature, and its cache's key from its closure: what is written here, from
    the shape key to the device, keeps results of other problems, sources and devices apart.
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
    """The referee's own reference, in the output's dtype, for the autotuner's tolerances."""
    import torch

    from harness.judge.child import trials

    def product(*tensors: Any) -> Any:
        return trials.reference(problem, list(tensors[: len(problem.inputs)])).to(getattr(torch, problem.output))

    return product


class _Heard:
    """What became of each configuration, told once."""

    def __init__(self, configs: Sequence[Config], tell: Callable[[Message], None]) -> None:
        self._configs = configs
        self._tell = tell
        self._of_kernel: dict[int, list[int]] = {}
        self.told: set[int] = set()

    def index_of(self, config: Config) -> int:
        bare = {name: value for name, value in config.items() if name != _PASSED}
        passes = config.get(_PASSED)
        return self._configs.index({**bare, PASS_CONFIGS: passes} if passes else bare)

    def outcome(self, index: int, latency_ms: float | None, reason: str = "") -> None:
        if index not in self.told:
            self.told.add(index)
            self._tell(Timed(index, latency_ms, printable(reason, 300)))

    def noting_failures(self, compile_one: Callable[..., Any]) -> Callable[..., Any]:
        def compile_and_note(**config: Any) -> Any:
            index = self.index_of(frozen(config))
            try:
                kernel = compile_one(**config)
            except Exception as error:
                self.outcome(index, None, f"{type(error).__name__}: {error}")
                raise
            self._of_kernel.setdefault(id(kernel), []).append(index)
            return kernel

        return compile_and_note

    def timed(self, kernel: Any, latency_ms: float | None, reason: str = "") -> None:
        for index in self._of_kernel.get(id(kernel), ()):
            self.outcome(index, latency_ms, reason)

    def rest(self, picked: int) -> None:
        """What the autotuner said nothing of timed out there; after a pick from its cache, nothing was asked."""
        for index in range(len(self._configs)) if self.told else ():
            if index not in self.told and index != picked:
                self.outcome(index, None, "no answer within the autotuner's timeout")


def _asked(base: type, heard: _Heard) -> Any:
    """The autotuner's class, which tells of each measurement as it is made."""

    class Asked(base):  # type: ignore[misc]
        def _benchmark_target(self, jit_kernel: Any, *rest: Any, **more: Any) -> Any:
            try:
                found = super()._benchmark_target(jit_kernel, *rest, **more)
            except Exception as error:
                heard.timed(jit_kernel, None, f"{type(error).__name__}: {error}")
                raise
            heard.timed(jit_kernel, float(found[0]))
            return found

    return Asked
