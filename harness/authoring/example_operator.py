"""``example``: Y[M,N] = X[M,N] * W[N] over the root of the mean square of X's row."""

from typing import Any

from harness.judge.facts.fills import Normal, Signed
from harness.judge.facts.operator import Input, Operator, Output


def reference(x: Any, weight: Any, *, eps: float) -> Any:
    """What is right, by torch and in a wide dtype; several outputs are returned in their order."""
    return x * (x.square().mean(dim=-1, keepdim=True) + eps).rsqrt() * weight


OPERATOR = Operator(
    name="example",  # the file's name; the problem is example_f32fp32_64x256
    dims=("M", "N"),  # Which sizes does a shape key give, and in which order?
    scalars={"eps": 1e-6},  # Which numbers may a key set, such as eps or a scale? {} for none.
    inputs={  # What does a kernel read? Shapes in the dimensions; dtype="int32" unless the key's.
        "x": Input("M, N", fill=Normal(1.0)),  # What does it hold? Or Integers, Lengths, Offsets, Mask, Words …
        "weight": Input("N", fill=Signed(1.0)),
    },
    outputs={  # What does it write? How many terms does an element sum, and of which size is it?
        "y": Output("M, N", terms="N", scale=1.0),
    },
    flops="4 * M * N",  # How many operations are useful?
    reference=reference,
    rows=("x",),  # Which inputs have a row for each row of the outputs, and for no other? () for none.
)
