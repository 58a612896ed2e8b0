"""The same products as torch operators, for torch.compile, autograd, and tensors that hold no data."""

from math import prod
from typing import Any

import torch
from torch import Tensor

from kernels.front import arguments
from kernels.front.eager import product

# The library's name and the operators' schemas are what a saved graph holds.


@torch.library.custom_op("tilebench::matmul", mutates_args=())
def matmul(a: Tensor, b: Tensor) -> Tensor:
    return product("matmul", a, b, None)


@torch.library.custom_op("tilebench::linear", mutates_args=())
def linear(a: Tensor, w: Tensor) -> Tensor:
    return product("linear", a, w, None)


@torch.library.custom_op("tilebench::matmul_into", mutates_args=("out",))
def matmul_into(a: Tensor, b: Tensor, out: Tensor) -> None:
    product("matmul", a, b, out)


@torch.library.custom_op("tilebench::linear_into", mutates_args=("out",))
def linear_into(a: Tensor, w: Tensor, out: Tensor) -> None:
    product("linear", a, w, out)


@matmul.register_fake
def _(a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty(arguments.check("matmul", a, b))


@linear.register_fake
def _(a: Tensor, w: Tensor) -> Tensor:
    return a.new_empty(arguments.check("linear", a, w))


@matmul_into.register_fake
def _(a: Tensor, b: Tensor, out: Tensor) -> None:
    arguments.check_out("matmul", a, b, out, arguments.check("matmul", a, b))


@linear_into.register_fake
def _(a: Tensor, w: Tensor, out: Tensor) -> None:
    arguments.check_out("linear", a, w, out, arguments.check("linear", a, w))


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _of_matmul(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """C = A·B: dA = dC·Bᵀ, which is linear(dC, B), and dB = Aᵀ·dC."""
    a, b = ctx.saved_tensors
    gradient = gradient.contiguous()
    need_a, need_b = ctx.needs_input_grad
    return linear(gradient, b) if need_a else None, matmul(a.t().contiguous(), gradient) if need_b else None


def _of_linear(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """C = A·Wᵀ: dA = dC·W, dW = dCᵀ·A; leading dimensions are rows."""
    a, w = ctx.saved_tensors
    count = prod(a.shape[:-1])  # not -1, which means nothing where a dimension is 0
    rows = gradient.reshape(count, w.shape[0]).contiguous()
    need_a, need_w = ctx.needs_input_grad
    return (
        matmul(rows, w).reshape(a.shape) if need_a else None,
        matmul(rows.t().contiguous(), a.reshape(count, w.shape[1])) if need_w else None,
    )


matmul.register_autograd(_of_matmul, setup_context=_keep)
linear.register_autograd(_of_linear, setup_context=_keep)
