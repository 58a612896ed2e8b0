"""The operators a problem can name: one small module each, registered here."""

from typing import Final

from harness.operators import attention, linear, matmul
from harness.operators.operator import Operator

_ALL: Final = (matmul.OPERATOR, linear.OPERATOR, attention.ATTENTION, attention.CAUSAL)
OPERATORS: Final[dict[str, Operator]] = {operator.name: operator for operator in _ALL}

__all__ = ["OPERATORS", "Operator"]
