"""``matmul``: row-major A[M,K] · B[K,N] -> C[M,N]."""

from harness.operators.products import product

OPERATOR = product(
    "matmul",
    inputs={"a": "M, K", "b": "K, N"},
    reference=lambda a, b: a @ b,
    times_signs=lambda inputs, signs, times: times(inputs[0], times(inputs[1], signs)),
)
