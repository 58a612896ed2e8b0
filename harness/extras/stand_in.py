"""A GPU's stand-in: code made elsewhere runs as it is, on a machine without a GPU, and what it compiles is kept.

Its tensors lie on the CPU. Its kernels are compiled and not launched: a launch gives zeros in the shapes and dtypes of
the outputs. So a benchmark comes to all kernels that it would time. What it verifies is not verified.
"""

import importlib
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode

from harness.catalog.fitting import capability
from harness.judge.facts import architectures

_TUNES: Final = "it runs a tuner of its own, which needs a GPU"
_TIMED_MS: Final = 1.0  # what a benchmark is told


def _nothing(*_: object, **__: object) -> None: ...


_STREAM: Final = SimpleNamespace(cuda_stream=0, **dict.fromkeys(("synchronize", "wait_stream", "wait_event"), _nothing))
_EVENT: Final = SimpleNamespace(
    elapsed_time=lambda *_: _TIMED_MS, **dict.fromkeys(("record", "wait", "synchronize"), _nothing)
)


class OnCpu(TorchFunctionMode):
    """Puts on the CPU what a function wants on a GPU, and says that it lies on the GPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _TOLD:
            return _TOLD[func]
        if func is torch.Tensor.cuda:
            return args[0]
        if func is torch.device and args and isinstance(args[0], int):
            return torch.device("cuda", args[0])
        words = {name: _on_cpu(value) for name, value in (kwargs or {}).items() if name != "pin_memory"}
        if isinstance(words.get("device"), int):  # a GPU's number, to torch
            words["device"] = torch.device("cpu")
        return func(*map(_on_cpu, args), **words)


_TENSOR: Final[Any] = torch.Tensor
_TOLD: Final = {_TENSOR.is_cuda.__get__: True, _TENSOR.device.__get__: torch.device("cuda", 0)}


class CpuGenerator(torch.Generator):
    """A generator of the CPU, whatever device it is asked for."""

    def __new__(cls, *_: Any, **__: Any) -> "CpuGenerator":
        return super().__new__(cls)


def _on_cpu(value: Any) -> Any:
    if isinstance(value, str | torch.device) and str(value).partition(":")[0] == "cuda":
        return torch.device("cpu")
    return value


def call(path: Path, function: str, root: Path, arch: str, sms: int | None) -> list[Any]:
    """Call a function of a file, and return what was compiled as TileLang's own kernel objects.

    A test that pytest parametrizes gets its first values. The file may import what lies beside it, below the tree's
    ``root``, and below the root's ``src``.
    """
    kernels: list[Any] = []
    stand_in_for_cuda(arch, sms)
    stand_in_for_kernels(kernels)
    os.chdir(path.parent)
    sys.path[:0] = [str(path.parent), str(root), str(root / "src")]
    sys.argv = [str(path)]
    with OnCpu():
        if (root / "benchmarks" / "benchmark_base.py").is_file():
            _stand_in_for_tileops()
        called = getattr(importlib.import_module(path.stem), function)
        called(**first_values(called))
    return kernels


def first_values(function: Any) -> dict[str, Any]:
    """The first values that pytest's marks give a test, of those that it would not skip."""
    found: dict[str, Any] = {}
    for mark in getattr(function, "pytestmark", ()):
        if mark.name == "parametrize":
            names, sets = mark.args[:2]
            names = [each.strip() for each in names.split(",")] if isinstance(names, str) else list(names)
            given = next((each for each in sets if not _is_skipped(each)), None)
            if given is None:
                raise RuntimeError("pytest would skip each of its cases")
            values = getattr(given, "values", given)
            found |= zip(names, values if len(names) > 1 or values is not given else [values], strict=True)
    return found


def _is_skipped(given: Any) -> bool:
    return any(each.name == "skip" for each in getattr(given, "marks", ()))


def untuned(tuner: Any, *words: Any, **more: Any) -> Any:
    """In the place of a tuner: the configuration that the caller gives, else the first of those that it would try."""
    make, first, given = _called(tuner, words, more)
    config = {name: given.get(name, value) for name, value in first.items()}
    kernel = make(*words, **more, **{name: value for name, value in config.items() if name not in given})
    if hasattr(kernel, "prim_func"):
        kernel.config = config
    return kernel


def pinned(tuner: Any, *words: Any, **more: Any) -> Any:
    """In the place of a tuner: a call that gives one of its parameters, which TileLang does not tune. Others raise."""
    make, first, given = _called(tuner, words, more)
    if first.keys().isdisjoint(given):
        raise RuntimeError(_TUNES)
    return make(*words, **more)


def _called(tuner: Any, words: tuple[Any, ...], more: dict[str, Any]) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Of a tuner's call: what makes its kernel, the first configuration that it would try, and the given arguments.

    TileLang's own argument is taken out of ``more``.
    """
    make = tuner.jit_impl.compile if more.pop("__return_kernel", False) else tuner.jit_impl
    configs = tuner.configs(*words, **more) if callable(tuner.configs) else tuner.configs
    first = {name: value for name, value in dict(next(iter(configs))).items() if name != "pass_configs"}
    return make, first, {**tuner.jit_impl.signature.bind_partial(*words).arguments, **more}


def stand_in_for_kernels(kernels: list[Any], tuner: Callable[..., Any] = untuned) -> None:
    """Keep what is compiled, and replace launches, timers, tuners and comparisons."""
    import tilelang
    from tilelang import profiler
    from tilelang.autotuner.tuner import AutoTuneImpl, AutoTuner
    from tilelang.utils import tensor

    original = tilelang.JITKernel.__init__

    def compiled(kernel: Any, *words: Any, **more: Any) -> None:
        original(kernel, *words, **more)
        kernels.append(kernel)

    tilelang.JITKernel.__init__ = compiled
    tilelang.JITKernel.__call__ = launched
    AutoTuneImpl.__call__ = tuner
    AutoTuner.run = _raising(_TUNES)
    for name in ("tilelang.profiler", "tilelang.profiler.bench"):
        vars(importlib.import_module(name))["do_bench"] = timed
    for name, answer in {"do_bench": _TIMED_MS, "assert_allclose": None, "manual_assert_close": None}.items():
        setattr(profiler.Profiler, name, _answering(answer))
    compared = (torch.testing, "assert_close", None), (tensor, "torch_assert_close", None), (torch, "allclose", True)
    for module, name, verdict in compared:
        setattr(module, name, _answering(verdict))


def launched(kernel: Any, *tensors: Any, **_: Any) -> Any:
    """Zeros for each output that the caller does not give; a size that varies is that of an input."""
    outputs = kernel.out_idx or []
    places = {each % len(kernel.params) for each in ([outputs] if isinstance(outputs, int) else outputs)}
    inputs = [each for place, each in enumerate(kernel.params) if place not in places]
    if len(tensors) != len(inputs):
        return None
    sizes = {str(size): own for each, given in zip(inputs, tensors, strict=True) for size, own in _sizes(each, given)}
    made = [_zeros(kernel.params[place], sizes) for place in sorted(places)]
    return made[0] if len(made) == 1 else made or None


def _sizes(parameter: Any, given: Any) -> Iterable[tuple[Any, int]]:
    """The sizes that vary: of packed words a tensor has fewer than its parameter, and pins nothing."""
    sizes = zip(parameter.shape, given.shape, strict=False) if isinstance(given, torch.Tensor) else ()
    return ((size, own) for size, own in sizes if not str(size).isdigit())


def _zeros(parameter: Any, sizes: dict[str, int]) -> torch.Tensor:
    dtype = parameter.dtype if isinstance(parameter.dtype, torch.dtype) else parameter.torch_dtype()
    return torch.zeros([sizes.get(str(size)) or int(size) for size in parameter.shape], dtype=dtype)


def timed(function: Callable[[], object], *_: Any, **__: Any) -> float:
    """In the place of TileLang's timer: one call, which compiles."""
    function()
    return _TIMED_MS


def stand_in_for_cuda(arch: str, sms: int | None) -> None:
    """Answer for a GPU of an architecture, which need not be here."""
    importlib.import_module("tilelang.carver")  # that of 0.1.9 asks TVM for the GPU, once torch says there is one
    major, minor = capability(arch)
    facts = SimpleNamespace(name=f"{arch} stand-in", multi_processor_count=sms, major=major, minor=minor)
    if most := architectures.limits(arch):
        facts.shared_memory_per_block_optin = most.block_shared_bytes
    answers = {
        "is_available": True,
        "device_count": 1,
        "current_device": 0,
        "get_device_capability": (major, minor),
        "get_device_properties": facts,
        "get_device_name": facts.name,
        "current_stream": _STREAM,
        "default_stream": _STREAM,
        "Stream": _STREAM,
        "stream": nullcontext(),
        "Event": _EVENT,
        **dict.fromkeys(("init", "synchronize", "manual_seed", "manual_seed_all", "empty_cache", "set_device")),
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, _answering(answer))
    torch.Generator = CpuGenerator  # type: ignore[misc]


def _stand_in_for_tileops() -> None:
    """In the place of TileOPs' timers: its own operators are called once, and what it holds them against is not."""
    from benchmarks import baselines, benchmark_base, timing  # type: ignore[import-not-found]

    def compare(_: Any, functors: dict[str, Any], *inputs: Any, **__: Any) -> dict[str, Any]:
        for tag, functor in functors.items():
            if tag.startswith("tileops"):
                function, given = functor if isinstance(functor, tuple) else (functor, inputs)
                function(*given)
        return {}

    def once(function: Any, args: Any = (), **_: Any) -> list[Any]:
        function(*args)
        return [timing.Sample(*(_TIMED_MS for _ in timing.Sample._fields))]

    benchmark_base.BenchmarkBase.compare = compare
    timing.bench_kernel = benchmark_base.bench_kernel = once
    baselines.assert_matches_reference = _answering(None)
    baselines._resolve = baselines.flaggems_op = _answering(None)
    baselines.compiled_reference = lambda function, *_, **__: function


def _answering(answer: object) -> Callable[..., object]:
    return lambda *_, **__: answer


def _raising(reason: str) -> Callable[..., object]:
    def refuse(*_: Any, **__: Any) -> object:
        raise RuntimeError(reason)

    return refuse
