"""``causalattention``: ``attention`` in which a query sees the keys up to its own position."""

from harness.operators.attention import operator

OPERATOR = operator("causalattention", causal=True)
