"""The operators a problem can name: one small module each, registered here."""

from typing import Final

from harness.operators import linear, matmul
from harness.operators.operator import Operator

OPERATORS: Final[dict[str, Operator]] = {operator.name: operator for operator in (matmul.OPERATOR, linear.OPERATOR)}

__all__ = ["OPERATORS", "Operator"]
