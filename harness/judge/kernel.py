"""The kernel of an iteration: what its ``build`` returned, compiled, and called in one way."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import tilelang
import torch
from tilelang import tvm

from harness.gpus import Gpu
from harness.iteration import Program
from harness.judge.signature import Signature


class Launch(Protocol):
    """Enqueue one launch on the given tensors: the inputs and, last, the output."""

    def __call__(self, *tensors: torch.Tensor) -> None: ...


@dataclass(frozen=True, slots=True)
class Kernel:
    """A launchable kernel; ``signature`` is (shape, dtype) of inputs and output, None for a plain callable."""

    launch: Launch
    signature: Signature | None
    source: str | None

    @property
    def source_sha256(self) -> str | None:
        return None if self.source is None else hashlib.sha256(self.source.encode()).hexdigest()


def target_of(gpu: Gpu) -> Any:
    """The TVM target; named in full, because a bare "cuda" asks the driver, or takes sm_50 where there is none."""
    return tvm.target.Target("c" if gpu.is_cpu else {"kind": "cuda", "arch": gpu.arch})


def compile_kernel(built: object, gpu: Gpu, device: torch.device) -> Kernel:
    """Compile what ``build(problem)`` returned: a Program, a PrimFunc, a compiled JITKernel, or a plain callable.

    Raises TypeError for anything else, and whatever TileLang raises.
    """
    if isinstance(built, tvm.tirx.PrimFunc):
        built = Program(built)
    if isinstance(built, Program):
        compiled = tilelang.compile(
            built.prim_func,
            out_idx=None,
            target=target_of(gpu),
            pass_configs=dict(built.pass_configs) or None,
            compile_flags=list(built.compile_flags) or None,
        )
        return _from_compiled(compiled, built, device)
    if isinstance(built, tilelang.JITKernel):
        return _from_compiled(built, Program(built.prim_func), device)
    if callable(built):
        return Kernel(built, None, None)
    raise TypeError(f"build() returned {type(built).__name__}; it must return a Program, a PrimFunc or a JITKernel")


def _from_compiled(compiled: Any, program: Program, device: torch.device) -> Kernel:
    parameters = [_parameter(parameter) for parameter in compiled.params]
    outputs = compiled.out_idx or []
    call: Callable[..., Any] = compiled
    if outputs:
        return Kernel(_returning(call), tuple(parameters), compiled.get_kernel_source())
    tensors = len(parameters) - len(program.workspaces)
    workspaces: list[torch.Tensor] = []

    def launch(*tensors: torch.Tensor) -> None:
        if len(workspaces) < len(program.workspaces):  # on first use: the device is not touched while building
            workspaces.extend(
                torch.zeros(each.shape, dtype=getattr(torch, each.dtype), device=device) for each in program.workspaces
            )
        call(*tensors, *workspaces)

    return Kernel(launch, tuple(parameters[:tensors]), compiled.get_kernel_source())


def _returning(call: Callable[..., Any]) -> Launch:
    """A kernel that allocates its output: the copy into the given one is part of what a launch costs."""

    def launch(*tensors: torch.Tensor) -> None:
        *inputs, output = tensors
        result = call(*inputs)
        if type(result) is not torch.Tensor or result.shape != output.shape or result.dtype != output.dtype:
            raise TypeError(f"the kernel returned {type(result).__name__}, not one tensor like the problem's output")
        output.copy_(result)

    return launch


def _parameter(parameter: Any) -> tuple[tuple[int, ...], str]:
    shape = tuple(int(size) if str(size).isdigit() else -1 for size in parameter.shape)
    return shape, str(parameter.dtype)
