"""A product of plain tensors: one lookup finds what an earlier call with such arguments made."""

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from kernels.front.arguments import SECOND, check, check_out, overlap, problem_of
from kernels.front.launches import launch_of
from kernels.front.timing import Launch


@dataclass(frozen=True, slots=True)
class Known:
    """``like`` is one element in the output's shape: of the ways to allocate from Python, empty_like costs least."""

    launch: Launch
    like: Tensor
    sizes_bytes: tuple[int, int, int]  # of a, b and the output


_known: Final[dict[tuple[object, ...], Known]] = {}


def product(operator: str, a: Tensor, b: Tensor, out: Tensor | None) -> Tensor:
    """The product, into ``out`` where that is given, without gradients."""
    if out is not None:
        return _into(operator, a, b, out)
    key = operator, a.shape, b.shape, a.dtype, b.dtype, a.device, b.device
    try:
        known = _known[key]
    except KeyError:
        known = _known[key] = _found(operator, a, b)
    if not (a.is_contiguous() and b.is_contiguous()):
        check(operator, a, b)
    made = torch.empty_like(known.like)
    known.launch(a, b, made)
    return made


def _into(operator: str, a: Tensor, b: Tensor, out: Tensor) -> Tensor:
    try:
        key = operator, a.shape, b.shape, out.shape, a.dtype, b.dtype, out.dtype, a.device, b.device, out.device
        known = _known[key]
    except (KeyError, AttributeError):  # the latter where out is no tensor
        check_out(operator, a, b, out, check(operator, a, b))
        known = _known[key] = _found(operator, a, b)
    if not (a.is_contiguous() and b.is_contiguous() and out.is_contiguous()) or out.requires_grad:
        check_out(operator, a, b, out, check(operator, a, b))
    a_bytes, b_bytes, out_bytes = known.sizes_bytes
    start, first, second = out.data_ptr(), a.data_ptr(), b.data_ptr()
    end = start + out_bytes
    # A meta tensor's address is 0, and it has no memory.
    if start and ((start < first + a_bytes and first < end) or (start < second + b_bytes and second < end)):
        name = "a" if overlap(out, a) else SECOND[operator]
        raise ValueError(f"{operator}: out lies in the memory of {name}; give it memory of its own")
    known.launch(a, b, out)
    increment_version(out)  # written by its address, so that autograd does not see it
    return out


def _found(operator: str, a: Tensor, b: Tensor) -> Known:
    """What a call with such arguments needs; compiles the kernel where that is not done yet."""
    shape = check(operator, a, b)
    problem = problem_of(operator, a, shape)
    launch = nothing if a.is_meta else launch_of(problem, a.device)
    if a.dim() != 2 and not a.is_meta:
        launch = _flattened(launch, *problem.dims)
    like = torch.empty(1, dtype=a.dtype, device=a.device).expand(shape)
    return Known(launch, like, (a.nbytes, b.nbytes, like.nbytes))


def nothing(*tensors: Tensor) -> None:
    """Tensors on the meta device have shapes only."""


def _flattened(launch: Launch, rows: int, columns: int, depth: int) -> Launch:
    return lambda a, b, out: launch(a.view(rows, depth), b, out.view(rows, columns))
