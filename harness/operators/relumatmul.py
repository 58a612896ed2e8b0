"""``relumatmul``: relu(A[M,K]) · B[K,N] -> C[M,N], a product with an elementwise function of A in front."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from harness.judge.facts.operator import Times
from harness.operators import matmul
from harness.operators.products import freivalds


def _reference(a: Any, b: Any) -> Any:
    return a.relu() @ b


def _of_inputs(inputs: Sequence[Any], signs: Any, times: Times) -> Any:
    a, b = inputs
    return times(a.relu(), times(b, signs))


OPERATOR = replace(matmul.OPERATOR, name="relumatmul", reference=_reference, sketch=freivalds(_of_inputs))
