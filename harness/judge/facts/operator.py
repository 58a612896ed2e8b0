"""What the harness must know of an operator: shapes, work, scale and a reference."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

Dims = tuple[int, ...]
Shape = tuple[int, ...]
Times = Callable[[Any, Any], Any]  # an accurate matrix-vector product
Sketch = Callable[[Sequence[Any], Any, Any, Times], tuple[Any, Any]]

OUTPUT_SCALE: Final = 0.25  # standard deviation of the output: at this scale absolute limits mean something
FACTOR_DTYPE: Final = "float32"


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator.

    ``dims`` names the dimensions in the shape key's order. ``inputs`` and ``output`` give the row-major shapes for
    given dimensions, ``flops`` the useful operations, ``terms`` how many products one output element sums,
    ``roundings`` how many values of 16 bits or less stand between the inputs and the output, itself included.
    ``scales`` are the standard deviations of the inputs that give an output of OUTPUT_SCALE. ``factors`` are the
    positions of inputs that scale others: positive, of FACTOR_DTYPE whatever the problem's is, and their ``scales`` are
    what they are around. ``multiples`` names pairs of dimensions of which the first is a multiple of the second.

    ``reference`` takes and returns torch tensors of one wide dtype. ``fill_exact(inputs, dice)`` fills the inputs so
    that the output's rounded values are unique (to ``exact_in``, where that is coarser than the output's dtype).
    ``sketch(inputs, output, dice, times)`` gives two vectors that are equal where the output is right, at the cost of
    reading each tensor about once. ``dice`` is a torch.Generator. The parent imports operators without torch: what
    needs it, imports it.
    """

    name: str
    dims: tuple[str, ...]
    inputs: Callable[[Dims], tuple[Shape, ...]]
    output: Callable[[Dims], Shape]
    flops: Callable[[Dims], int]
    terms: Callable[[Dims], int]
    reference: Callable[..., Any]
    scales: Callable[[Dims], tuple[float, ...]]
    fill_exact: Callable[[Sequence[Any], Any], None]
    sketch: Sketch
    roundings: int = 1
    factors: tuple[int, ...] = ()
    multiples: tuple[tuple[str, str], ...] = ()
    exact_in: str | None = None
