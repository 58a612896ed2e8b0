"""The gated delta rule: token by token as it is defined, and by chunks with mistakes at their edges."""

import pytest
import torch

import baselines
from harness.judge.facts.problem import parse_shape_key
from tests.harness.operators.launches import Launch, wrong

KEYS = ["gateddelta_bf16fp32_1x2x160x32x64", "gateddelta_f32fp32_2x2x96x32x16"]
EDGE = 64


def kernel(
    *, carried: bool = True, decays: bool = True, removes: bool = True, rated: bool = True, early: bool = False
) -> Launch:
    """Token by token; with mistakes.

    Without ``carried`` the state is lost at each multiple of EDGE. Without ``removes`` a value is added to what its key
    had, and without ``rated`` at once. ``early`` reads the state before the token. ``decays`` applies the decay.
    """

    def launch(*tensors: torch.Tensor) -> None:
        q, k, v, decay, rate = (each.transpose(1, 2).float() for each in tensors[:5])
        o, state = tensors[5].transpose(1, 2), torch.zeros(*q.shape[:2], q.shape[3], v.shape[3])
        for t in range(q.shape[2]):
            if not carried and t % EDGE == 0:
                state = torch.zeros_like(state)
            before = state = state * (-decay[:, :, t] * decays).exp()[..., None, None]
            key = k[:, :, t, :, None]
            held = (key * state).sum(2) * removes
            added = (v[:, :, t] - held) * (rate[:, :, t, None] if rated else 1.0)
            state = state + key * added[:, :, None]
            o[:, :, t] = (q[:, :, t, :, None] * (before if early else state)).sum(2)
        tensors[6].copy_(state)

    return launch


def other_state(*tensors: torch.Tensor) -> None:
    """Right outputs, and the state of another head."""
    kernel()(*tensors)
    tensors[6].copy_(tensors[6].roll(1, 1))


MISTAKES = {
    "the state lost between chunks": (kernel(carried=False), {"random", "exact"}),
    "no decay": (kernel(decays=False), {"random"}),
    "nothing removed": (kernel(removes=False), {"random", "exact"}),
    "no rate": (kernel(rated=False), {"random"}),
    "read too early": (kernel(early=True), {"random", "exact"}),
    "another head's state": (other_state, {"random", "exact"}),
}


@pytest.mark.parametrize("key", KEYS)
def test_the_library_and_the_definition_pass(key: str) -> None:
    assert wrong(key, kernel()) == set()
    assert wrong(key, baselines.library(parse_shape_key(key))) == set()


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("key", KEYS)
def test_a_mistake_is_found(key: str, mistake: str) -> None:
    launch, by = MISTAKES[mistake]
    assert wrong(key, launch) >= by | {"timed"}
