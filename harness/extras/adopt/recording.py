"""A script run on a GPU's stand-in, with a tape of what it computes and of what it compares.

Its kernels are neither compiled nor launched: a launch gives zeros. Its tensors lie on the CPU.
"""

import importlib
import importlib.abc
import importlib.machinery
import os
import runpy
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import tilelang
import tilelang.profiler
import torch
from tilelang import tvm
from tilelang.engine.lower import extrac_params
from torch.nn.attention import SDPBackend, sdpa_kernel

from harness.errors import described
from harness.extras import stand_in
from harness.extras.adopt.launch import TapedLaunch
from harness.extras.adopt.tape import Tape, TensorPlace, places_in

_ASSERT_ALLCLOSE: Final = tilelang.profiler.Profiler.assert_allclose  # as TileLang has it
# Opponents of some examples; a script that only imports them needs none.
OPTIONAL: Final = (
    "triton",
    "flash_attn",
    "flash_attn_interface",
    "fla",
    "flashinfer",
    "flash_mla",
    "matplotlib",
    "bitblas",
)
# Of Triton, what a module calls when it is loaded.
DECORATING: Final = ("jit", "autotune", "heuristics", "Config", "constexpr")
# What compares two tensors element by element where a script does it by hand.
COMPARING: Final = ("sub.Tensor", "isclose.default", "eq.Tensor", "ne.Tensor", "mul.Tensor", "dot.default")


@dataclass
class Recording:
    """What a script did; ``pairs`` are compared tensors, and ``failed`` says how it ended early."""

    tape: Tape = field(default_factory=Tape)
    pairs: list[tuple[TensorPlace, TensorPlace]] = field(default_factory=list)
    failed: str | None = None

    def by_hand(self) -> Iterator[tuple[TensorPlace, TensorPlace]]:
        """The pairs of tensors that the script's own calls of torch compare."""
        for call in self.tape.calls:
            if str(call.function).removeprefix("aten.") in COMPARING:
                given = [each for each in places_in(call.arguments) if each.elements > 1]
                if len(given) == 2 and given[0].size == given[1].size:
                    yield given[0], given[1]


def record(path: Path, function: str | None, arch: str, sms: int | None) -> Recording:
    """Run a script, or one function of it with the first values that pytest gives it."""
    found = Recording()
    _stand_in(found, arch, sms)
    os.chdir(path.parent)
    sys.path[:0] = [str(path.parent)]
    sys.argv = [str(path)]
    sys.meta_path.append(_Missing())
    target = tvm.target.Target({"kind": "cuda", "arch": arch})
    with target, stand_in.OnCpu(), found.tape, sdpa_kernel(SDPBackend.MATH):
        try:
            _run(path, function)
        except SystemExit:
            pass
        except BaseException as error:  # it is a person's code; what it did before counts
            found.failed = described(error)
    return found


def _run(path: Path, function: str | None) -> None:
    if function is None:
        runpy.run_path(str(path), run_name="__main__")
        return
    called = getattr(importlib.import_module(path.stem), function)
    called(**stand_in.first_values(called))


def _stand_in(found: Recording, arch: str, sms: int | None) -> None:
    stand_in.stand_in_for_cuda(arch, sms)
    stand_in.stand_in_for_kernels([])
    tilelang.disable_cache()

    def adapter(kernel: Any, prim_func: Any, out_idx: Any) -> Any:
        outputs = [] if out_idx is None else list(out_idx) if isinstance(out_idx, list | tuple) else [out_idx]
        launch = TapedLaunch(prim_func, list(map(int, outputs)), kernel.pass_configs, kernel.compile_flags)
        kernel.prim_func = prim_func
        return _Adapter(found.tape, launch, extrac_params(prim_func))

    kernel = tilelang.JITKernel
    kernel._compile_and_create_adapter = adapter
    kernel.__call__ = lambda self, *tensors, **_: self.adapter(*tensors)

    def compared(actual: Any, expected: Any, *_: Any, **__: Any) -> bool:
        if isinstance(actual, torch.Tensor) and isinstance(expected, torch.Tensor):
            found.pairs.append((found.tape.place(actual), found.tape.place(expected)))
        return True

    places = (torch.testing, "assert_close"), (torch, "allclose"), (tilelang.utils.tensor, "torch_assert_close")
    for module, name in (*places, (tilelang.profiler, "torch_assert_close")):
        setattr(module, name, compared)
    tilelang.profiler.Profiler.assert_allclose = _ASSERT_ALLCLOSE


class _Adapter:
    """In the place of a compiled kernel: a launch is noted, and gives zeros."""

    def __init__(self, tape: Tape, launch: TapedLaunch, params: Sequence[Any]) -> None:
        self.tape, self.launch, self.params = tape, launch, params
        self.func, self.result_idx, self.prim_func = self, launch.outputs, launch.prim_func

    def get_kernel_source(self, *_: Any, **__: Any) -> str:
        return ""

    def __call__(self, *given: Any) -> Any:
        with self.tape.pause():
            made = stand_in.launched(SimpleNamespace(out_idx=self.launch.outputs, params=self.params), *given)
        written = [
            each
            for position, each in zip(self.launch.inputs, given, strict=True)
            if self.launch.uses.get(position, 0) > 1 and isinstance(each, torch.Tensor)
        ]
        self.tape.launch(self.launch, given, made, written)
        return made


class _Absent:
    """A package that is not here: what is asked of it is another such thing, and to call that fails."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Absent(f"{self._name}.{name}")

    def __call__(self, *_: Any, **__: Any) -> Any:
        if self._name.rpartition(".")[2] in DECORATING:
            return self
        raise ModuleNotFoundError(f"it needs {self._name}, which is not installed")

    def __getitem__(self, _: Any) -> Any:
        raise ModuleNotFoundError(f"it needs {self._name.partition('.')[0]}, which is not installed")


class _Missing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds packages of OPTIONAL that are not installed, as empty ones."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname.partition(".")[0] in OPTIONAL:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> Any:
        return _Absent(spec.name)

    def exec_module(self, module: Any) -> None:
        module.__file__, module.__version__ = f"{module.__name__} is absent", "0"  # some print them
