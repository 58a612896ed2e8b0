"""The description of an operator: shapes, work, scale and reference."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

Dims = tuple[int, ...]
Shape = tuple[int, ...]
Times = Callable[[Any, Any], Any]  # an accurate matrix-vector product
Sketch = Callable[[Sequence[Any], Any, Any, Times], tuple[Any, Any]]

OUTPUT_SCALE: Final = 0.25  # standard deviation of the output, which absolute limits refer to
FACTOR_DTYPE: Final = "float32"


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator.

    ``dims`` names the dimensions in the shape key's order. ``inputs`` and ``output`` give the row-major shapes for
    given dimensions, ``flops`` the useful operations, ``terms`` the products that one output element sums.
    ``roundings`` counts the values of 16 bits or less between inputs and output, the output included. ``scales`` are
    the standard deviations of inputs that give an output of OUTPUT_SCALE. ``factors`` are the positions of inputs that
    scale others: positive, of FACTOR_DTYPE, and centred on their ``scales``. ``multiples`` names pairs of dimensions;
    the first is a multiple of the second. ``rows`` are the positions of inputs with a row for each row of the output,
    which follows from no other row of them; ``corner_power`` of two is how much smaller and larger than random values
    such a row may be.

    ``reference`` takes and returns torch tensors of one wide dtype. ``fill_exact(inputs, dice)`` fills the inputs so
    that the rounded output has one right value (rounded to ``exact_in`` if that is coarser than the output's dtype).
    ``sketch(inputs, output, dice, times)`` gives two vectors that agree where the output is right, and reads each
    tensor about once. ``dice`` is a torch.Generator. The parent imports operators without torch, so a function that
    needs torch imports it.
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
    rows: tuple[int, ...] = (0,)
    corner_power: int = 10
    multiples: tuple[tuple[str, str], ...] = ()
    exact_in: str | None = None
