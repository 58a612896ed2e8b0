"""``addscalar``: X[N] + s[1] -> Z[N]; the scalar is known only at the launch."""

from harness.operators.elementwise import elementwise

OPERATOR = elementwise(
    "addscalar",
    ("N",),
    inputs={"x": "N", "scalar": "1"},
    reference=lambda x, scalar: x + scalar,
    signed_sum=lambda inputs, signs: inputs[0] @ signs + inputs[1] * signs.sum(),
    flops="N",
)
