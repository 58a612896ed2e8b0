"""What operators that move elements share: a sketch in float64, in which all sums are exact enough."""

from collections.abc import Callable, Sequence
from typing import Any

from harness.operators.operator import Sketch, Times


def signed(of_inputs: Callable[[Sequence[Any], Any], Any]) -> Sketch:
    """The output times a vector of signs, and what ``of_inputs(inputs, signs)`` says that it must be."""

    def sketch(inputs: Sequence[Any], output: Any, signs: Any, times: Times) -> tuple[Any, Any]:
        wide = signs.double()
        return (output.double() @ wide).view(-1), of_inputs([each.double() for each in inputs], wide).view(-1)

    return sketch
