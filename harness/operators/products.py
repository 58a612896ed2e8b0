"""Products of matrices: scales of inputs, small integers, random signs, and Freivalds' check."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from harness.judge.facts.fills import Normal
from harness.judge.facts.operator import OUTPUT_SCALE, Input, Operator, Output, Sketch, Times

# Of two inputs, such that sums of K products of zero-mean values have the output's scale.
SCALE: Final = f"sqrt({OUTPUT_SCALE} / sqrt(K))"


def fill_exact(inputs: Sequence[Any], dice: Any) -> None:
    """Fill with small integers: every partial sum is exact, so the rounded result is unique."""
    import torch

    for tensor in inputs:
        largest = 1 if tensor.dtype == torch.float8_e4m3fn else 2
        tensor.copy_(
            torch.randint(-largest, largest + 1, tensor.shape, device=tensor.device, generator=dice, dtype=torch.int8)
        )


def signs_of(output: Any, dice: Any) -> Any:
    """A random sign for each element of a row of the output: int8[N]."""
    import torch

    return torch.randint(0, 2, output.shape[-1:], device=output.device, generator=dice, dtype=torch.int8) * 2 - 1


def freivalds(times_signs: Callable[[Sequence[Any], Any, Times], Any]) -> Sketch:
    """Compare the output times a random vector of N signs with the same product from the inputs.

    Freivalds, "Probabilistic machines can use less running time", 1977.
    """

    def sketch(inputs: Sequence[Any], output: Any, dice: Any, times: Times) -> tuple[Any, Any]:
        signs = signs_of(output, dice).float()
        return times(output, signs), times_signs(inputs, signs, times)

    return sketch


def product(
    name: str,
    *,
    inputs: Mapping[str, str],
    reference: Callable[..., Any],
    times_signs: Callable[[Sequence[Any], Any, Times], Any],
) -> Operator:
    """An operator that writes C[M,N] from sums over K, a row of it from a row of the first input.

    ``times_signs`` gives C times a vector, from the inputs.
    """
    return Operator(
        name=name,
        dims=("M", "N", "K"),
        inputs={name: Input(shape, fill=Normal(SCALE)) for name, shape in inputs.items()},
        outputs={"c": Output("M, N", terms="K")},
        flops="2 * M * N * K",
        reference=reference,
        fill_exact=fill_exact,
        sketch=freivalds(times_signs),
        rows=(next(iter(inputs)),),
    )
