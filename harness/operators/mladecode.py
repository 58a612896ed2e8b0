"""``mladecode``: latent attention of a new token of each of B sequences to the pages of a cache, as in DeepSeek-V2.

Q[B,H,D+R], C[B·T,S,D+R], table P[B,T], lengths N[B] -> O[B,H,D]. All heads share the cache: a token's key is its row
of D + R values, its value the first D of them. Pages and lengths are those of ``pageddecode``.
"""

from collections.abc import Sequence
from typing import Any

from harness.judge.facts.fills import Lengths, PageTable
from harness.judge.facts.operator import Input, Operator, Output, Times
from harness.operators import pageddecode
from harness.operators.sequences import CORNER_POWER, EXACT_IN


def _paged(width: int, q: Any, cache: Any, table: Any, lengths: Any) -> tuple[Any, ...]:
    """The inputs as those of ``pageddecode`` with one head of keys, and of values of this width."""
    keys = cache[:, :, None]
    return q, keys, keys[..., :width], table, lengths


def _reference(q: Any, *others: Any, D: int) -> Any:  # noqa: N803 - the dimension's name
    return pageddecode.reference(*_paged(D, q, *others))


def _sketch(inputs: Sequence[Any], output: Any, dice: Any, times: Times) -> tuple[Any, Any]:
    return pageddecode.sketch(_paged(output.shape[-1], *inputs), output, dice, times)


def _fill_exact(inputs: Sequence[Any], dice: Any) -> None:
    """Let each query mean one token; the output is the start of that token's code."""
    q, keys, _, table, lengths = _paged(1, *inputs)
    pageddecode.mean_tokens(q, keys, table, lengths, dice)


OPERATOR = Operator(
    name="mladecode",
    dims=("B", "H", "D", "R", "T", "S"),
    dtypes=("bf16", "fp16", "f32"),
    inputs={
        "q": Input("B, H, D + R"),
        "cache": Input("B * T, S, D + R"),
        "table": Input("B, T", "int32", PageTable("B * T")),
        "lengths": Input("B", "int32", Lengths("T * S")),
    },
    # The weights round to the input's dtype, and then the output. That of a single token is a row of the cache.
    outputs={"o": Output("B, H, D", terms="T * S", roundings=2, scale=1.0)},
    # Of lengths of half of the most, which is their mean; bytes are in 16 bits.
    flops="B * H * (2 * D + R) * T * S",
    bytes="B * (T * S * (D + R) + 2 * H * (2 * D + R))",
    exact_in=EXACT_IN,
    corner_power=CORNER_POWER,
    reference=_reference,
    rows=("q",),
    fill_exact=_fill_exact,
    sketch=_sketch,
    unread=lambda q, cache, table, lengths: {"cache": pageddecode.beyond(cache, table, lengths)},
)
