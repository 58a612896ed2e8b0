"""``contiguous``: X[N,M] -> Z[M,N] = Xᵀ; a transposed view, with strides (1, M), written row by row."""

from harness.operators.elementwise import elementwise

OPERATOR = elementwise(
    "contiguous",
    ("M", "N"),
    inputs={"x": "N, M"},
    reference=lambda x: x.T.contiguous(),
    signed_sum=lambda inputs, signs: inputs[0].T @ signs,
)
