"""What the harness must know of an operator: shapes, work, scale and a reference."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Dims = tuple[int, ...]
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator.

    ``dims`` names the dimensions in the shape key's order. ``inputs`` and ``output`` give the row-major shapes for
    given dimensions, ``flops`` the useful operations, ``terms`` how many products one output element sums.
    ``reference`` takes and returns torch tensors of one wide dtype; it uses tensor methods only, so that the parent
    can import this without torch.
    """

    name: str
    dims: tuple[str, ...]
    inputs: Callable[[Dims], tuple[Shape, ...]]
    output: Callable[[Dims], Shape]
    flops: Callable[[Dims], int]
    terms: Callable[[Dims], int]
    reference: Callable[..., Any]
