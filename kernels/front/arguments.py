"""Arguments of a call, checked: each that is wrong has one sentence that says what to do."""

from collections.abc import Iterable
from math import prod
from typing import Final

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

from harness.judge.facts.problem import Problem

DTYPES: Final = {torch.bfloat16: "bfloat16", torch.float16: "float16", torch.float32: "float32"}
# Any other subclass may hold no data, or want to see the call.
PLAIN: Final = (Tensor, Parameter)
CAUSAL: Final = {"attention": False, "causalattention": True}
DEVICES: Final = ("cuda", "cpu", "meta")
SECOND: Final = {"matmul": "b", "linear": "w"}
TRANSPOSED: Final = {"matmul": "linear(a, b.t())", "linear": "matmul(a, w.t())"}


def check(operator: str, a: Tensor, b: Tensor) -> tuple[int, ...]:
    """The output's shape; raises TypeError or ValueError."""
    name = SECOND[operator]
    for each, tensor in (("a", a), (name, b)):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{operator}: {each} is a {type(tensor).__name__}; give it a torch.Tensor")
    if a.dtype != b.dtype:
        raise TypeError(f"{operator}: a is {a.dtype} and {name} is {b.dtype}; cast one, as in {name}.to(a.dtype)")
    if a.dtype not in DTYPES:
        raise TypeError(f"{operator}: {a.dtype} is not supported; cast to {', '.join(map(str, DTYPES))}")
    if a.device != b.device:
        raise ValueError(f"{operator}: a is on {a.device} and {name} on {b.device}; move one")
    if a.device.type not in DEVICES:
        raise ValueError(f"{operator}: tensors are on {a.device}; move them to an NVIDIA GPU or the CPU")
    shape = _shape(operator, a, b)
    if not b.is_contiguous() and b.t().is_contiguous():
        raise ValueError(f"{operator}: {name} is a transposed view; call {TRANSPOSED[operator]}, which needs no copy")
    check_contiguous(operator, ("a", name), (a, b))
    return shape


def check_contiguous(operator: str, names: Iterable[str], tensors: Iterable[Tensor]) -> None:
    for name, tensor in zip(names, tensors, strict=True):
        if not tensor.is_contiguous():
            strides = ",".join(map(str, tensor.stride()))
            raise ValueError(f"{operator}: {name} is not contiguous (strides {strides}); pass {name}.contiguous()")


def _shape(operator: str, a: Tensor, b: Tensor) -> tuple[int, ...]:
    if operator == "matmul":
        if a.dim() != 2 or b.dim() != 2:
            raise ValueError(f"{_both(operator, a, b)}; it takes [M,K] and [K,N], so flatten batches, as linear does")
        if a.shape[1] != b.shape[0]:
            hint = "; linear takes [N,K]" if a.shape[1] == b.shape[1] else ""
            raise ValueError(f"{_both(operator, a, b)}; columns of a and rows of b must be equal{hint}")
        return a.shape[0], b.shape[1]
    if a.dim() < 1 or b.dim() != 2:
        raise ValueError(f"{_both(operator, a, b)}; it takes [..., K] and a matrix [N,K]")
    if a.shape[-1] != b.shape[1]:
        hint = "; matmul takes [K,N]" if a.shape[-1] == b.shape[0] else ""
        raise ValueError(f"{_both(operator, a, b)}; columns of a and of w must be equal{hint}")
    return *a.shape[:-1], b.shape[0]


def check_out(operator: str, a: Tensor, b: Tensor, out: Tensor, shape: tuple[int, ...]) -> None:
    """Raises TypeError or ValueError; the inputs are checked already."""
    if not isinstance(out, Tensor):
        raise TypeError(f"{operator}: out is a {type(out).__name__}; give it a torch.Tensor")
    if out.dtype != a.dtype or out.device != a.device:
        raise ValueError(f"{operator}: out is {out.dtype} on {out.device}, the inputs are {a.dtype} on {a.device}")
    if tuple(out.shape) != tuple(shape):
        raise ValueError(f"{operator}: out is {words(out)}, the product is [{','.join(map(str, shape))}]")
    if not out.is_contiguous():
        raise ValueError(f"{operator}: out is not contiguous; copy the product into it instead")
    if torch.is_grad_enabled() and any(each.requires_grad for each in (a, b, out)):
        raise ValueError(f"{operator}: out= has no gradient; leave it out, or call it under torch.no_grad()")


def problem_of(operator: str, a: Tensor, shape: tuple[int, ...]) -> Problem:
    """What is computed; leading dimensions of ``a`` are rows."""
    dtype = DTYPES[a.dtype]
    return Problem(operator, dtype, "float32", dtype, (prod(a.shape[:-1]), shape[-1], a.shape[-1]))


def refuse_tangents(operator: str, *tensors: Tensor) -> None:
    """Raises ValueError where forward-mode differentiation wants a tangent, which would be lost without a word."""
    if forward_ad._current_level >= 0 and any(forward_ad.unpack_dual(each).tangent is not None for each in tensors):
        raise ValueError(f"{operator}: it has no forward-mode gradient; call torch's own there")


def overlap(one: Tensor, other: Tensor) -> bool:
    """Whether two contiguous tensors share memory; those on the meta device have none."""
    start, begin = one.data_ptr(), other.data_ptr()
    return not one.is_meta and start < begin + other.nbytes and begin < start + one.nbytes


def _both(operator: str, a: Tensor, b: Tensor) -> str:
    return f"{operator}: a is {words(a)} and {SECOND[operator]} is {words(b)}"


def words(tensor: Tensor) -> str:
    return f"[{','.join(map(str, tensor.shape))}]"
