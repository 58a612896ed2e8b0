"""``add``: X[N] + Y[N] -> Z[N]."""

from harness.operators.elementwise import elementwise

OPERATOR = elementwise(
    "add",
    ("N",),
    inputs={"x": "N", "y": "N"},
    reference=lambda x, y: x + y,
    signed_sum=lambda inputs, signs: inputs[0] @ signs + inputs[1] @ signs,
    flops="N",
)
