"""``blockscaledlinear``: A[M,K] · W[N,K]ᵀ -> C[M,N], 8-bit inputs in blocks that each have a scale.

S[K/128,M] scales 1x128 blocks of A, and lies as kernels read it, M fastest; T[N/128,K/128] scales 128x128 blocks of W.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from harness.operators import scaledlinear
from harness.operators.operator import Dims, Shape, Times
from harness.operators.products import freivalds

BLOCK: Final = 128


def _inputs(dims: Dims) -> tuple[Shape, ...]:
    rows, columns, depth = dims
    blocks = -(-depth // BLOCK)
    return (rows, depth), (columns, depth), (blocks, rows), (-(-columns // BLOCK), blocks)


def dequantised(a: Any, w: Any, scale_a: Any, scale_w: Any) -> tuple[Any, Any]:
    """A and W with their scales multiplied in, in the scales' dtype."""
    a, w = a.to(scale_a.dtype), w.to(scale_w.dtype)
    rows = scale_w.repeat_interleave(BLOCK, dim=0)[: len(w)]
    return tuple(
        each * scale.repeat_interleave(BLOCK, dim=1)[:, : each.shape[1]] for each, scale in ((a, scale_a.T), (w, rows))
    )


def _reference(*inputs: Any) -> Any:
    a, w = dequantised(*inputs)
    return a @ w.T


def _of_inputs(inputs: Sequence[Any], signs: Any, times: Times) -> Any:
    a, w = dequantised(*inputs)
    return times(a, times(w.T, signs))


OPERATOR = replace(
    scaledlinear.OPERATOR,
    name="blockscaledlinear",
    inputs=_inputs,
    reference=_reference,
    sketch=freivalds(_of_inputs),
)
