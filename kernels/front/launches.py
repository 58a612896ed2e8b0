"""Launches: each problem's kernel compiled once on a device, and ahead of time for CUDA graphs."""

import ctypes
import os
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import tilelang
import torch
from tilelang import tvm
from torch import Tensor

from harness.errors import UsageError
from harness.iteration import Program, Workspace
from harness.judge.facts.problem import Problem, parse_shape_key
from harness.machine import cores
from kernels.front.arguments import CAUSAL, DTYPES, SECOND
from kernels.front.choice import Choice, library
from kernels.front.defaults import default
from kernels.front.library import library_of
from kernels.front.pinned import pinned
from kernels.front.places import Place, place
from kernels.front.racing import raced
from kernels.front.timing import Launch

TENSOR_ALIGNMENT: Final = 16  # bytes, of TMA and of vector loads; torch's allocators give more, a slice may have less

Key = tuple[Problem, torch.device]

SIZES: Final = "TILEBENCH_SIZES"
SIZES_USUAL: Final = 32
CHANGING: Final = ("B", "M", "S")  # batch, rows and tokens

_launches: dict[Key, Launch] = {}
_taken: dict[Key, Choice] = {}
_sizes: Counter[Key] = Counter()  # of a layer, compiled without a published winner
_locks: dict[Key, threading.Lock] = {}
_tracing = threading.Lock()  # a few milliseconds in Python; compilers run beside each other


def warm_up(*shape_keys: str, device: torch.device | str | int | None = None) -> dict[str, str]:
    """Compile ahead for problems such as ``matmul_bf16fp32_4096x4096x4096``, several at a time; a CUDA graph needs it.

    Returns what was taken for each, and why. ``device``: the current GPU where not given, the CPU where there is none.
    Raises UsageError for a shape key that does not parse, or names another operator.
    """
    problems = [parse_shape_key(key) for key in shape_keys]
    for problem in problems:
        known = problem.operator in SECOND or problem.operator in CAUSAL
        if not known or problem.input not in DTYPES.values() or problem.output != problem.input:
            raise UsageError(f"'{problem}' is no problem of the front: matmul, linear and attention in one dtype")
    where = resolved(device)
    with ThreadPoolExecutor(cores.jobs()) as pool:
        list(pool.map(partial(launch_of, device=where, ahead=True), problems))
    return {problem.shape_key: str(_taken[problem, where]) for problem in problems}


def resolved(device: torch.device | str | int | None) -> torch.device:
    """A device with its index, as tensors have it."""
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.empty(0, device=device).device


def choose(problem: Problem, where: Place, *, ahead: bool = True) -> Choice:
    """What computes a problem; ``ahead`` of a call, however many sizes of its layer are compiled.

    Raises UsageError for a wrong setting.
    """
    found = pinned(problem, where.key)
    if found is None and not ahead and (compiled := _sizes[_layer(problem, where.device)]) >= _sizes_most():
        return library(f"{compiled} sizes of this layer are compiled; warm_up before the first call compiles another")
    return found or raced(problem, where, _compiled) or default(problem, where)


def _layer(problem: Problem, device: torch.device) -> Key:
    """A problem without its batch, rows and tokens, which change from call to call."""
    return problem.static(CHANGING), device


def _sizes_most() -> int:
    given = os.environ.get(SIZES) or str(SIZES_USUAL)
    if not given.isdecimal():
        said = f"{SIZES} is '{given}'; set it to how many sizes of a layer compile, such as {SIZES_USUAL}"
        raise UsageError(said)
    return int(given)


def launch_of(problem: Problem, device: torch.device, *, ahead: bool = False) -> Launch:
    """The launch of a problem, compiled at its first use; threads that ask at once wait for one compilation.

    The first sizes of a layer compile, and all ``ahead`` of calls. Raises RuntimeError where it would have to compile
    while a CUDA graph is captured.
    """
    key = problem, device
    found = _launches.get(key)
    if found is not None:
        return found
    with _locks.setdefault(key, threading.Lock()):
        if key not in _launches:
            _launches[key] = _made(problem, device, ahead=ahead)
    return _launches[key]


def _made(problem: Problem, device: torch.device, *, ahead: bool) -> Launch:
    where = place(device)
    choice = _taken[problem, device] = choose(problem, where, ahead=ahead)
    if choice.family is None:
        return _library(problem, device)
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            f"{problem} is not compiled yet and a CUDA graph is being captured; "
            f"call it once before, or kernels.warm_up('{problem}')"
        )
    launch = choice.launch or _compiled(problem, choice, where)
    _sizes[_layer(problem, device)] += pinned(problem, where.key) is None
    return launch


def _library(problem: Problem, device: torch.device) -> Launch:
    on_gpu = device.type == "cuda" and problem.operator in CAUSAL
    return _aligned(library_of(problem), device) if on_gpu else library_of(problem)


def _compiled(problem: Problem, choice: Choice, where: Place) -> Launch:
    with _tracing:
        program = choice.program(problem)
    kernel = kernel_of(program, where.arch)
    if where.arch == "c":
        return _on_cpu(kernel)
    return _on_gpu(_with_workspaces(_function(kernel), program, where.device), problem, where.device)


def kernel_of(program: Program, arch: str | None) -> Any:
    """What TileLang compiles of a program for an architecture."""
    return tilelang.compile(
        program.prim_func,
        out_idx=None,
        target=tvm.target.Target("c" if arch == "c" else {"kind": "cuda", "arch": arch}),
        pass_configs=dict(program.pass_configs) or None,
        compile_flags=list(program.compile_flags) or None,
    )


def _on_cpu(kernel: Any) -> Launch:
    """The library's own entry point: the arguments are checked, which is most of what TileLang's wrapper does."""
    call = kernel.adapter.lib.call
    call.argtypes = [ctypes.c_void_p] * 4  # a, b, out and a stream

    def launch(a: Tensor, b: Tensor, out: Tensor) -> None:
        call(a.data_ptr(), b.data_ptr(), out.data_ptr(), None)

    return launch


def _function(kernel: Any) -> Callable[..., object]:
    """The compiled function itself, which takes torch's current stream; TileLang looks it up anew in each call."""
    if kernel.execution_backend != "tvm_ffi":
        return kernel  # type: ignore[no-any-return]
    executable = kernel.adapter.get_exportable_executable()
    loaded = executable.jit() if isinstance(executable, tvm.runtime.Executable) else executable  # else from the disk
    function: Callable[..., object] = loaded.main
    return function


def _with_workspaces(function: Callable[..., object], program: Program, device: torch.device) -> Callable[..., object]:
    """Launches on one workspace must not overlap: a stream has its own, and each launch in a CUDA graph.

    A graph's own memory pool holds the latter, and gives it to the next launch in the graph.
    """
    if not program.workspaces:
        return function
    by_stream: dict[int, list[Tensor]] = {}

    def launch(*tensors: Tensor) -> None:
        if torch.cuda.is_current_stream_capturing():
            function(*tensors, *_zeros(program.workspaces, device))
            return
        stream = torch.cuda.current_stream(device).cuda_stream
        if stream not in by_stream:
            by_stream[stream] = _zeros(program.workspaces, device)
        function(*tensors, *by_stream[stream])

    return launch


def _zeros(workspaces: tuple[Workspace, ...], device: torch.device) -> list[Tensor]:
    return [torch.zeros(each.shape, dtype=getattr(torch, each.dtype), device=device) for each in workspaces]


def _aligned(launch: Launch, device: torch.device) -> Launch:
    """A launch on copies of what begins at an odd address: cuDNN's attention takes it too, and reads beside it."""

    def launch_aligned(*tensors: Tensor) -> None:
        *inputs, out = tensors
        with torch.cuda.device(device):
            inputs = [each.clone() if _odd(each) else each for each in inputs]
            if _odd(out):
                launch(*inputs, result := torch.empty_like(out))
                out.copy_(result)
            else:
                launch(*inputs, out)

    return launch_aligned


def _odd(tensor: Tensor) -> bool:
    return tensor.data_ptr() % TENSOR_ALIGNMENT != 0


def _on_gpu(function: Callable[..., object], problem: Problem, device: torch.device) -> Launch:
    if problem.operator in CAUSAL:
        return _aligned(function, device)
    fallback = library_of(problem)
    several = torch.cuda.device_count() > 1

    def launch(a: Tensor, b: Tensor, out: Tensor) -> None:
        if (a.data_ptr() | b.data_ptr() | out.data_ptr()) % TENSOR_ALIGNMENT:
            fallback(a, b, out)
        elif several and torch.cuda.current_device() != device.index:
            with torch.cuda.device(device):  # the kernel's host code would leave it set
                function(a, b, out)
        else:
            function(a, b, out)

    return launch
