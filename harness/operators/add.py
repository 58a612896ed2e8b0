"""``add``: X[N] + Y[N] -> Z[N]."""

from harness.operators.elementwise import elementwise

OPERATOR = elementwise(
    "add",
    ("N",),
    inputs=lambda dims: (dims, dims),
    reference=lambda x, y: x + y,
    signed_sum=lambda inputs, signs: inputs[0] @ signs + inputs[1] @ signs,
    flops=lambda dims: dims[0],
)
