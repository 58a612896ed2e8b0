"""What the harness must know of an operator: shapes, work, scale and a reference."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Dims = tuple[int, ...]
Shape = tuple[int, ...]
Times = Callable[[Any, Any], Any]  # an accurate matrix-vector product
Sketch = Callable[[Sequence[Any], Any, Any, Times], tuple[Any, Any]]


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator.

    ``dims`` names the dimensions in the shape key's order. ``inputs`` and ``output`` give the row-major shapes for
    given dimensions, ``flops`` the useful operations, ``terms`` how many products one output element sums.
    ``reference`` takes and returns torch tensors of one wide dtype; it uses tensor methods only, so that the parent
    can import this without torch. ``sketch(inputs, output, signs, times)``, where there is one, gives two vectors that
    are equal where the output is right, at the cost of reading each tensor once: the output times a random vector of
    N signs, and the same from the inputs (Freivalds, "Probabilistic machines can use less running time", 1977).
    """

    name: str
    dims: tuple[str, ...]
    inputs: Callable[[Dims], tuple[Shape, ...]]
    output: Callable[[Dims], Shape]
    flops: Callable[[Dims], int]
    terms: Callable[[Dims], int]
    reference: Callable[..., Any]
    sketch: Sketch | None = None
