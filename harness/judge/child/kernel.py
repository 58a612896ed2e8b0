"""The kernel of an iteration: the result of its ``build``, compiled, with one way to launch it."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

import tilelang
import torch
from tilelang import tvm
from tilelang.jit import JITImpl

from harness.judge.child.capture import Captured, capturing, compilation, tensor_ir
from harness.judge.child.preparation import Prepare
from harness.judge.facts.compilation import Compilation
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import SYMBOLIC, Problem
from harness.judge.facts.program import Program
from harness.judge.facts.signature import Signature

_compile: Final = tilelang.compile  # bound before an iteration can replace it, as are the others
_source_of: Final = tilelang.JITKernel.get_kernel_source
_structural_hash: Final = tvm.ir.structural_hash


class LaunchCall(Protocol):
    """Enqueues one launch on the given tensors: the inputs and, last, the outputs."""

    def __call__(self, *tensors: torch.Tensor) -> None: ...


@dataclass(frozen=True, slots=True)
class Kernel:
    """A launchable kernel; ``signature`` is (shape, dtype) of inputs and outputs, None for a plain callable.

    The parent reads the build evidence from ``compilation``, which is None if nothing was compiled.
    ``writing`` launches with outputs that are written, where ``launch`` only returns them. ``unpinned`` gives the
    complaint about levers that CONFIG does not pin, empty if there is none. ``prepare`` is done outside what is timed.
    ``link`` compiles the host code ahead of the first launch.
    ``dynamic`` are its symbolic dimensions, and ``traced_sha256`` is then of its program before it is compiled.
    """

    launch: LaunchCall
    signature: Signature | None
    compilation: Compilation | None
    writing: LaunchCall | None = None
    unpinned: Callable[[], str] = str
    prepare: Prepare | None = None
    link: Callable[[], object] = object
    dynamic: tuple[str, ...] = ()
    traced_sha256: str = ""


def target_of(gpu: Gpu) -> Any:
    """The TVM target with its architecture: a bare "cuda" asks the driver, and without one means sm_50."""
    return tvm.target.Target("c" if gpu.is_cpu else {"kind": "cuda", "arch": gpu.arch})


def build_kernel(build: Callable[[Problem], object], problem: Problem, gpu: Gpu, device: torch.device) -> Kernel:
    """Call an iteration's ``build``, compile the result, and keep what the compilers print.

    A ``build`` that names no target means this one.
    """
    with capturing() as made, target_of(gpu):
        return compile_kernel(build(problem), problem, gpu, device, made)


def compile_kernel(built: object, problem: Problem, gpu: Gpu, device: torch.device, made: Captured) -> Kernel:
    """Compile the result of ``build(problem)``: a Program, a PrimFunc, a compiled JITKernel, or a plain callable.

    An eager ``@tilelang.jit`` function is traced now for the problem's tensors, not at its first call. Raises TypeError
    for anything else, and whatever TileLang raises.
    """
    if isinstance(built, JITImpl):
        built = _traced(built, problem, gpu)
    if isinstance(built, tensor_ir().PrimFunc):
        built = Program(built)
    if isinstance(built, Program):
        compiled = _compile(
            built.prim_func,
            out_idx=None,
            target=target_of(gpu),
            pass_configs=dict(built.pass_configs) or None,
            compile_flags=list(built.compile_flags) or None,
        )
        return _from_compiled(compiled, built, problem, device, made)
    if isinstance(built, tilelang.JITKernel):
        return _from_compiled(built, Program(built.prim_func), problem, device, made)
    if callable(built):
        return Kernel(built, None, None)
    raise TypeError(f"build() returned {type(built).__name__}; it must return a Program, a PrimFunc or a JITKernel")


def _traced(function: Any, problem: Problem, gpu: Gpu) -> Program:
    """The program of an eager ``@tilelang.jit`` function, traced with tensors that hold no data."""
    tensors = [torch.empty(shape, dtype=getattr(torch, dtype), device="meta") for shape, dtype in problem.tensors]
    wanted = sum(each.default is each.empty for each in function.signature.parameters.values())
    with target_of(gpu):
        prim_func = function.get_tir(*tensors[:wanted])  # a function that allocates its outputs takes only the inputs
    if function.mode != "eager":
        raise TypeError("build() returned a lazy @tilelang.jit function; call it, and return the kernel it gives")
    flags = function.compile_flags or ()
    return Program(prim_func, function.pass_configs or {}, (flags,) if isinstance(flags, str) else tuple(flags))


def _from_compiled(compiled: Any, program: Program, problem: Problem, device: torch.device, made: Captured) -> Kernel:
    parameters = [_parameter(parameter) for parameter in compiled.params]
    outputs = compiled.out_idx or []
    call: Callable[..., Any] = compiled
    source = str(_source_of(compiled))
    found, link = compilation(compiled, source, made, _sizes(compiled, problem)), partial(_link, compiled)
    if outputs:
        return Kernel(_returning(call, len(outputs)), tuple(parameters), found, link=link)
    tensors = len(parameters) - len(program.workspaces)
    workspaces: list[torch.Tensor] = []

    def launch(*tensors: torch.Tensor) -> None:
        if len(workspaces) < len(program.workspaces):  # at the first launch: building touches no device
            workspaces.extend(
                torch.zeros(each.shape, dtype=getattr(torch, each.dtype), device=device) for each in program.workspaces
            )
        call(*tensors, *workspaces)

    return Kernel(
        launch,
        tuple(parameters[:tensors]),
        found,
        link=link,
        dynamic=tuple(map(str, program.dynamic)),
        traced_sha256=_traced_sha256(program),
    )


def _link(compiled: Any) -> None:
    """Compile the host code, which TileLang leaves to the first launch: beside an H200 that took 0.3 to 1.7 s.

    What comes from TileLang's cache is linked already. With an older adapter the first launch does it.
    """
    adapter = getattr(compiled, "adapter", None)
    found = getattr(adapter, "get_exportable_executable", lambda: getattr(adapter, "executable", None))()
    getattr(found, "jit", object)()


def _returning(call: Callable[..., Any], count: int) -> LaunchCall:
    """A kernel that allocates its outputs; a launch includes the copies into the given ones."""

    def launch(*tensors: torch.Tensor) -> None:
        outputs = tensors[-count:]
        made = call(*tensors[:-count])
        results = made if isinstance(made, list | tuple) else [made]
        if len(results) != count or not all(map(_alike, results, outputs)):
            kinds = ", ".join(type(each).__name__ for each in results)
            raise TypeError(f"the kernel returned {kinds}, not {count} like the problem's outputs")
        for output, result in zip(outputs, results, strict=True):
            output.copy_(result)

    return launch


def _alike(result: object, output: torch.Tensor) -> bool:
    return type(result) is torch.Tensor and result.shape == output.shape and result.dtype == output.dtype


def _parameter(parameter: Any) -> tuple[tuple[int, ...], str]:
    shape = tuple(int(size) if str(size).isdigit() else SYMBOLIC for size in parameter.shape)
    return shape, str(parameter.dtype)


def _traced_sha256(program: Program) -> str:
    """What a dynamic kernel is compiled from. TileLang's generated text differs from build to build; this does not."""
    if not program.dynamic:
        return ""
    options = sorted(map(repr, program.pass_configs.items())), program.compile_flags, program.workspaces
    traced = _structural_hash(program.prim_func, map_free_vars=True)
    return hashlib.sha256(repr((traced, *options)).encode()).hexdigest()


def _sizes(compiled: Any, problem: Problem) -> dict[str, int]:
    """The sizes that a problem gives to the parameters' symbolic dimensions, by name."""
    pairs = zip(compiled.params, problem.tensors, strict=False)
    return {str(name): size for each, (shape, _) in pairs for name, size in zip(each.shape, shape, strict=False)}
