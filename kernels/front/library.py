"""The library: its launch of a problem, and the tile of a product that it would take.

The tile is in the kernel's name. The launch is captured into a graph, read there, and never run.
"""

import ctypes
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from harness.judge.facts.problem import Problem
from kernels.front.arguments import CAUSAL
from kernels.front.model import SPLIT

TILE: Final = re.compile(r"(?:_|tilesize)(\d+)x(\d+)")  # the first of nvjet_tst_256x152_64x4_2x1_v_bz_TNT
KERNEL_NODE: Final = 0
LEAST_SIDE: Final = 8  # of a product in which torch makes the library's handle and workspace; a capture could not

_asking = threading.Lock()


class _KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2 of CUDA's driver."""

    _fields_ = (
        ("func", ctypes.c_void_p),
        ("sizes", ctypes.c_uint * 7),
        ("arguments", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kern", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


def library_of(problem: Problem) -> Callable[..., object]:
    if problem.operator in CAUSAL:
        causal = CAUSAL[problem.operator]
        return lambda q, k, v, out: out.copy_(library_attention(q, k, v, causal=causal))  # none takes an output
    if problem.operator == "linear":
        return lambda a, w, out: torch.matmul(a, w.t(), out=out)
    return lambda a, b, out: torch.matmul(a, b, out=out)


def library_attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> Tensor:
    return scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])


def library_tile(problem: Problem, device: torch.device) -> tuple[int, int] | None:
    """Columns and rows of C in a tile of the library's kernel; None where that is not known, or K is split."""
    names = library_kernels(problem, device)
    return None if any(SPLIT in each for each in names) else first_tile(names)


def first_tile(kernels: Iterable[str]) -> tuple[int, int] | None:
    return next(filter(None, map(tile_of, kernels)), None)


def tile_of(kernel: str) -> tuple[int, int] | None:
    found = TILE.search(kernel)
    return (int(found[1]), int(found[2])) if found else None


def library_kernels(problem: Problem, device: torch.device) -> tuple[str, ...]:
    """The names of the kernels that the library launches; none without a GPU, or while a graph is captured."""
    if not torch.cuda.is_available() or torch.cuda.is_current_stream_capturing():
        return ()
    with _asking:
        return _asked(problem, device)


@cache
def _asked(problem: Problem, device: torch.device) -> tuple[str, ...]:
    """Empty where the driver is too old, or memory is short."""
    try:
        return tuple(_kernels(_captured(problem, device)))
    except (AttributeError, OSError, RuntimeError):
        return ()


@contextmanager
def capturing(graph: torch.cuda.CUDAGraph, **options: Any) -> Iterator[None]:
    """Capture on the present stream. Unlike ``torch.cuda.graph`` it waits for no device and collects no garbage."""
    graph.capture_begin(capture_error_mode="thread_local", **options)
    try:
        yield
    finally:
        graph.capture_end()


def _captured(problem: Problem, device: torch.device) -> torch.cuda.CUDAGraph:
    """The library's launch on tensors without values; raises RuntimeError where they find no memory."""
    graph, launch, dtype = torch.cuda.CUDAGraph(keep_graph=True), library_of(problem), getattr(torch, problem.input)
    with torch.no_grad(), torch.cuda.device(device):
        tensors = [torch.empty(shape, dtype=dtype, device=device) for shape, _ in problem.tensors]
        small = torch.empty(LEAST_SIDE, LEAST_SIDE, dtype=dtype, device=device)
        with torch.cuda.stream(torch.cuda.Stream(device)):
            launch(small, small, torch.empty_like(small))
            with capturing(graph):
                launch(*tensors)
    return graph


def _kernels(graph: torch.cuda.CUDAGraph) -> Iterator[str]:
    driver, raw, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(graph.raw_cuda_graph()), ctypes.c_size_t()
    _check(driver.cuGraphGetNodes(raw, None, ctypes.byref(count)))
    nodes = (ctypes.c_void_p * count.value)()
    _check(driver.cuGraphGetNodes(raw, nodes, ctypes.byref(count)))
    for node in map(ctypes.c_void_p, nodes):
        kind, kernel, name = ctypes.c_int(), _KernelNode(), ctypes.c_char_p()
        _check(driver.cuGraphNodeGetType(node, ctypes.byref(kind)))
        if kind.value == KERNEL_NODE:
            _check(driver.cuGraphKernelNodeGetParams_v2(node, ctypes.byref(kernel)))
            named = driver.cuFuncGetName if kernel.func else driver.cuKernelGetName
            _check(named(ctypes.byref(name), ctypes.c_void_p(kernel.func or kernel.kern)))
            yield (name.value or b"").decode()


def _check(status: int) -> None:
    if status:
        raise RuntimeError(f"CUDA's driver returned {status}")
