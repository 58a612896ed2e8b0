"""``linear``: row-major A[M,K] · W[N,K]ᵀ -> C[M,N], as a network's layer multiplies by its weights."""

from harness.operators.products import product

OPERATOR = product(
    "linear",
    inputs={"a": "M, K", "w": "N, K"},
    reference=lambda a, w: a @ w.T,
    times_signs=lambda inputs, signs, times: times(inputs[0], times(inputs[1].T, signs)),
)
