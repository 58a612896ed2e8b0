"""``crossentropy``: S[M] = log(sum(exp(X[M,N]))) of each row, and L[M] = S - X[m, T[m]], the loss of class T[M]."""

from typing import Any, Final

from harness.judge.facts.fills import Integers
from harness.judge.facts.operator import Input, Operator, Output


def _reference(logits: Any, target: Any) -> tuple[Any, Any]:
    lse = logits.logsumexp(dim=-1)
    return lse - logits.gather(1, target[:, None])[:, 0], lse


# A sum's relative error is the absolute one of its logarithm, and so smaller beside that by its size.
_TERMS: Final = "max(1, N / (1 + log(N))**2)"

OPERATOR = Operator(
    name="crossentropy",
    dims=("M", "N"),
    inputs={"logits": Input("M, N"), "target": Input("M", "int64", Integers("N"))},
    outputs={
        "loss": Output("M", "float32", terms=_TERMS, scale="1 + log(N)"),
        "lse": Output("M", "float32", terms=_TERMS, scale="1 + log(N)"),
    },
    flops="4 * M * N",
    reference=_reference,
    rows=("logits", "target"),
)
