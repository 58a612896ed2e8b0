"""``gateddelta``: linear attention by the gated delta rule: the output of each token, and the state after the last.

Q, K[B,S,H,K], V[B,S,H,V], decay G and rate R[B,S,H] -> O[B,S,H,V] and the state T[B,H,K,V]. A token first makes
T = exp(-G) T. Then it adds K (R (V - Kᵀ T)) to T, and its output is Qᵀ T. Source: Yang et al., "Gated Delta
Networks", 2024.
"""

from collections.abc import Sequence
from typing import Any, Final

from harness.judge.facts.fills import Normal, Positive
from harness.judge.facts.operator import Input, Operator, Output

CHUNK: Final = 64
UNIT: Final = Normal("1 / sqrt(K)")  # vectors of about length 1


def chunked(q: Any, k: Any, v: Any, decay: Any, rate: Any) -> tuple[Any, Any]:
    """Output and state, chunk by chunk: what the tokens of a chunk add follows from a triangular system."""
    import torch

    q, k, v = (each.transpose(1, 2) for each in (q, k, v))
    decay, rate = (each.transpose(1, 2)[..., None] for each in (decay, rate))
    state = q.new_zeros(*k.shape[:2], k.shape[-1], v.shape[-1])
    made = []
    for start in range(0, q.shape[2], CHUNK):
        rows, keys, values, lost, share = (each[:, :, start : start + CHUNK] for each in (q, k, v, decay, rate))
        since = lost.cumsum(dim=2)
        left = (since.mT - since).tril_().exp_().tril_()  # of what token j added, at token i
        among = (share * (keys @ keys.mT) * left).tril(-1)
        missing = share * (values - (keys * (-since).exp()) @ state)
        added = torch.linalg.solve_triangular(among, missing, upper=False, unitriangular=True)
        made.append((rows * (-since).exp()) @ state + ((rows @ keys.mT) * left) @ added)
        state = (-since[:, :, -1:]).exp() * state + (keys * left[:, :, -1, :, None]).mT @ added
    return torch.cat(made, dim=2).transpose(1, 2), state


def _fill_exact(inputs: Sequence[Any], dice: Any) -> None:
    """Let each token write its value in the place of one key, and read that of another: small integers, not decayed."""
    import torch

    q, k, v, decay, rate = inputs
    for each in (q, k):
        places = torch.randint(each.shape[-1], each.shape[:-1], device=each.device, generator=dice)
        each.copy_(torch.nn.functional.one_hot(places, each.shape[-1]))
    v.copy_(torch.randint(-2, 3, v.shape, device=v.device, generator=dice, dtype=torch.int8))
    decay.zero_()
    rate.fill_(1.0)


OPERATOR = Operator(
    name="gateddelta",
    dims=("B", "H", "S", "K", "V"),
    dtypes=("bf16", "fp16", "f32"),
    inputs={
        "q": Input("B, S, H, K", fill=UNIT),
        "k": Input("B, S, H, K", fill=UNIT),
        # Four roundings add up: with values twice as large, one of 33 million elements was off by a hundredth.
        "v": Input("B, S, H, V", fill=Normal(0.5)),
        "decay": Input("B, S, H", "float32", Positive(1 / 32)),  # a state lasts for half of a chunk
        "rate": Input("B, S, H", "float32", Positive(0.5)),
    },
    # A kernel rounds what a token adds, the state between chunks, the weights within one, and the output.
    outputs={
        "o": Output("B, S, H, V", terms="K", roundings=4, uneven=True),
        "state": Output("B, H, K, V", terms="K", roundings=4, uneven=True),
    },
    # Seven products of a token's row and the state, or of rows with the half of a chunk of 64.
    flops="2 * B * S * H * (4 * K * V + 64 * (K + V))",
    reference=chunked,
    fill_exact=_fill_exact,
)
