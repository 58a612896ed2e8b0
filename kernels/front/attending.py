"""attention: checked, dispatched to the kernel measured best or to the library, visible to torch.compile."""

from typing import Final

import torch
from torch import Tensor, is_grad_enabled
from torch.autograd import forward_ad
from torch.autograd.graph import increment_version
from torch.compiler import is_compiling

from harness.judge.facts.problem import Problem
from kernels.front.arguments import CAUSAL, DEVICES, DTYPES, PLAIN, check_contiguous, overlap, refuse_tangents, words
from kernels.front.eager import nothing
from kernels.front.launches import launch_of
from kernels.front.library import library_attention
from kernels.front.timing import Launch

OPERATORS: Final = {causal: name for name, causal in CAUSAL.items()}
NAMES: Final = ("q", "k", "v")

_known: Final[dict[tuple[object, ...], Launch]] = {}


def attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, out: Tensor | None = None) -> Tensor:
    """O[B,H,S,W] = softmax(Q[B,H,S,D] · K[B,G,S,D]ᵀ / sqrt(D)) · V[B,G,S,W], each H / G heads with one of K and V.

    As ``scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)``, of as many queries as keys.
    bfloat16, float16 or float32, contiguous, on one NVIDIA GPU or the CPU. The first call for a shape compiles its
    kernel. Where a gradient is asked for, it is the library's call. Raises TypeError or ValueError in one sentence.
    """
    if (
        is_compiling()
        or not all(type(each) in PLAIN for each in (q, k, v))
        or ((q.requires_grad or k.requires_grad or v.requires_grad) and is_grad_enabled())
        or forward_ad._current_level >= 0
    ):
        return _dispatched(q, k, v, causal, out)
    return attended(q, k, v, causal, out)


def attended(q: Tensor, k: Tensor, v: Tensor, causal: bool, out: Tensor | None) -> Tensor:
    """``attention`` of plain tensors, without gradients."""
    key = causal, q.shape, k.shape, v.shape, q.dtype, k.dtype, v.dtype, q.device, k.device, v.device
    launch = _known.get(key)
    if launch is None:
        check(q, k, v)
        dims = (*q.shape[:2], k.shape[1], *q.shape[2:], v.shape[3])
        dtype = DTYPES[q.dtype]
        problem = Problem(OPERATORS[causal], dtype, "float32", dtype, tuple(dims))
        launch = _known[key] = nothing if q.is_meta else launch_of(problem, q.device)
    if not (q.is_contiguous() and k.is_contiguous() and v.is_contiguous()):
        check(q, k, v)
    if out is None:
        made = q.new_empty((*q.shape[:3], v.shape[3]))
        launch(q, k, v, made)
        return made
    check_out(q, k, v, out)
    launch(q, k, v, out)
    increment_version(out)  # written by its address, so that autograd does not see it
    return out


def check(q: Tensor, k: Tensor, v: Tensor) -> tuple[int, ...]:
    """The output's shape; raises TypeError or ValueError."""
    for name, tensor in zip(NAMES, (q, k, v), strict=True):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"attention: {name} is a {type(tensor).__name__}; give it a torch.Tensor")
        if tensor.dim() != 4:
            raise ValueError(f"attention: {name} is {words(tensor)}; it takes [batch, heads, tokens, width]")
        if tensor.dtype != q.dtype:
            raise TypeError(
                f"attention: q is {q.dtype} and {name} is {tensor.dtype}; cast one, as in {name}.to(q.dtype)"
            )
        if tensor.device != q.device:
            raise ValueError(f"attention: q is on {q.device} and {name} on {tensor.device}; move one")
    if q.dtype not in DTYPES:
        raise TypeError(f"attention: {q.dtype} is not supported; cast to {', '.join(map(str, DTYPES))}")
    if q.device.type not in DEVICES:
        raise ValueError(f"attention: tensors are on {q.device}; move them to an NVIDIA GPU or the CPU")
    batch, heads, tokens, depth = q.shape
    groups, width = k.shape[1], v.shape[3]
    if k.shape != (batch, groups, tokens, depth) or v.shape != (batch, groups, tokens, width):
        raise ValueError(
            f"attention: q is {words(q)}, k {words(k)} and v {words(v)}; it takes [B,H,S,D], [B,G,S,D] and [B,G,S,W]"
        )
    if groups == 0 or heads % groups:
        raise ValueError(f"attention: {heads} heads of q cannot share {groups} of k; H must be a multiple of G")
    check_contiguous("attention", NAMES, (q, k, v))
    return batch, heads, tokens, width


def check_out(q: Tensor, k: Tensor, v: Tensor, out: Tensor) -> None:
    """Raises TypeError or ValueError; the inputs are checked already."""
    if not isinstance(out, Tensor):
        raise TypeError(f"attention: out is a {type(out).__name__}; give it a torch.Tensor")
    shape = (*q.shape[:3], v.shape[3])
    if out.dtype != q.dtype or out.device != q.device or tuple(out.shape) != shape or not out.is_contiguous():
        wanted = f"[{','.join(map(str, shape))}], {q.dtype} on {q.device}, contiguous"
        raise ValueError(f"attention: out is {words(out)}, {out.dtype} on {out.device}; it must be {wanted}")
    if is_grad_enabled() and any(each.requires_grad for each in (q, k, v, out)):
        raise ValueError("attention: out= has no gradient; leave it out, or call it under torch.no_grad()")
    for name, tensor in zip(NAMES, (q, k, v), strict=True):
        if overlap(out, tensor):
            raise ValueError(f"attention: out lies in the memory of {name}; give it memory of its own")


@torch.library.custom_op("tilebench::attention", mutates_args=())
def operator(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    return attended(q, k, v, causal, None)


@operator.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    return q.new_empty(check(q, k, v))


@torch.library.custom_op("tilebench::attention_into", mutates_args=("out",))
def operator_into(q: Tensor, k: Tensor, v: Tensor, causal: bool, out: Tensor) -> None:
    attended(q, k, v, causal, out)


@operator_into.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, causal: bool, out: Tensor) -> None:
    check(q, k, v)


def _dispatched(q: Tensor, k: Tensor, v: Tensor, causal: bool, out: Tensor | None) -> Tensor:
    if not is_compiling():  # there the operators check what they trace
        check(q, k, v)
        refuse_tangents("attention", q, k, v)
        if out is not None:
            check_out(q, k, v, out)
    if out is not None:
        operator_into(q, k, v, causal, out)
        return out
    if is_grad_enabled() and any(each.requires_grad for each in (q, k, v)):
        return library_attention(q, k, v, causal=causal)
    made: Tensor = operator(q, k, v, causal)
    return made
