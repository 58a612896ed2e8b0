"""matmul and linear: checked, dispatched, differentiable; plain tensors go past torch's dispatcher."""

from torch import Tensor, is_grad_enabled
from torch.autograd import forward_ad
from torch.compiler import is_compiling

from kernels.front import op
from kernels.front.arguments import PLAIN, check, check_out, refuse_tangents
from kernels.front.eager import product


def matmul(a: Tensor, b: Tensor, *, out: Tensor | None = None) -> Tensor:
    """C[M,N] = A[M,K] · B[K,N], row-major, as ``torch.matmul`` of two matrices.

    bfloat16, float16 or float32, accumulated in float32; contiguous, on one NVIDIA GPU or the CPU. The first call for
    a shape compiles its kernel. Differentiable, without ``out``. Raises TypeError or ValueError in one sentence.
    """
    if (
        is_compiling()
        or type(a) not in PLAIN
        or type(b) not in PLAIN
        or ((a.requires_grad or b.requires_grad) and is_grad_enabled())
        or forward_ad._current_level >= 0
    ):
        return _dispatched("matmul", a, b, out)
    return product("matmul", a, b, out)


def linear(a: Tensor, w: Tensor, *, out: Tensor | None = None) -> Tensor:
    """C[...,N] = A[...,K] · W[N,K]ᵀ, row-major, as ``torch.nn.functional.linear`` without a bias.

    Leading dimensions of ``a`` are rows. Everything else is as in ``matmul``.
    """
    if (
        is_compiling()
        or type(a) not in PLAIN
        or type(w) not in PLAIN
        or ((a.requires_grad or w.requires_grad) and is_grad_enabled())
        or forward_ad._current_level >= 0
    ):
        return _dispatched("linear", a, w, out)
    return product("linear", a, w, out)


def _dispatched(operator: str, a: Tensor, b: Tensor, out: Tensor | None) -> Tensor:
    if not is_compiling():  # there the operators check what they trace
        shape = check(operator, a, b)
        refuse_tangents(operator, a, b)
        if out is not None:
            check_out(operator, a, b, out, shape)
    if out is None:
        made: Tensor = op.matmul(a, b) if operator == "matmul" else op.linear(a, b)
        return made
    if operator == "matmul":
        op.matmul_into(a, b, out)
    else:
        op.linear_into(a, b, out)
    return out
