"""``relumatmul``: relu(A[M,K]) · B[K,N] -> C[M,N], a product with an elementwise function of A."""

from harness.operators.products import product

OPERATOR = product(
    "relumatmul",
    inputs={"a": "M, K", "b": "K, N"},
    reference=lambda a, b: a.relu() @ b,
    times_signs=lambda inputs, signs, times: times(inputs[0].relu(), times(inputs[1], signs)),
)
