"""``copy``: X[M,N] -> Z[M,N]; the library's copy is the bandwidth that memory-bound problems are compared with."""

from harness.operators.elementwise import elementwise

OPERATOR = elementwise(
    "copy",
    ("M", "N"),
    inputs={"x": "M, N"},
    reference=lambda x: x,
    signed_sum=lambda inputs, signs: inputs[0] @ signs,
)
