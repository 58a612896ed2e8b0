"""Sets of problems: the shipped ones add up to their model's work, and what is wrong in a set is one line."""

from pathlib import Path

import pytest

from harness.catalog.problem_sets import problem_set, problem_sets
from harness.errors import UsageError
from harness.judge.facts.problem import parse_shape_key
from tests.harness.checkout import ROOT

KEY = "matmul_f32fp32_8x8x8"
# Weights of all products of a layer and of the logits, as published: 8.03e9 less the embedding; 3.3e9 are active.
LLAMA3_8B = 32 * (4096 * 6144 + 4096 * 4096 + 3 * 4096 * 14336) + 128256 * 4096
QWEN3_ACTIVE = 48 * (2048 * 5120 + 4096 * 2048 + 2048 * 128 + 8 * 3 * 2048 * 768) + 151936 * 2048


@pytest.mark.parametrize(
    ("name", "weights", "tokens"), [("llama3-8b-decode", LLAMA3_8B, 64), ("qwen3-30b-a3b-decode", QWEN3_ACTIVE, 64)]
)
def test_a_decode_step_multiplies_each_token_by_each_active_weight(name: str, weights: int, tokens: int) -> None:
    calls = problem_set(ROOT, name).calls
    assert sum(count * parse_shape_key(key).flops for key, count in calls.items()) == 2 * tokens * weights


@pytest.mark.parametrize(("model", "weights"), [("llama3-8b", LLAMA3_8B), ("qwen3-30b-a3b", QWEN3_ACTIVE)])
def test_a_prefill_does_so_with_8192_tokens_and_one_row_of_logits(model: str, weights: int) -> None:
    products = {key: n for key, n in problem_set(ROOT, f"{model}-prefill").calls.items() if key.startswith("linear")}
    (logits,) = (parse_shape_key(key) for key in products if key.startswith("linear_bf16fp32_1x"))
    flops = sum(count * parse_shape_key(key).flops for key, count in products.items())
    assert flops - logits.flops == 2 * 8192 * (weights - logits.flops // 2)


def test_every_shipped_set_says_what_it_is() -> None:
    found = problem_sets(ROOT)
    assert len(found) >= 4
    assert all(each.what and each.source and each.without for each in found.values())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"[mine.calls]\n{KEY} = 1\n\n[other.calls]\n{KEY} = -1", ":5: -1 calls of matmul_f32fp32_8x8x8"),
        (f"[mine.calls]\n{KEY} = nan", ":2: nan calls of"),
        (f"[mine.calls]\n{KEY} = true", ":2: True calls of"),
        (f"[mine.calls]\n{KEY} = '1'", ":2: '1' calls of"),
        ("[mine.calls]\nmatmul_f32fp32_8x8 = 1", ":2: shape key 'matmul_f32fp32_8x8': dimensions"),
        ("[mine]\nweights = 1", ":2: unknown field 'weights'; known: what, source, without, calls"),
        ("\n[mine]\nwhat = 'nothing'", ":2: set 'mine' has no calls"),
        (f"[llama3-8b-decode.calls]\n{KEY} = 1", ":1: set 'llama3-8b-decode' is shipped already"),
        (f"[mine.calls]\n{KEY} = 1\n{KEY} = 2", ":3: Cannot overwrite a value"),
    ],
)
def test_what_is_wrong_has_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "problems.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as refused:
        problem_sets(tmp_path)
    assert str(refused.value).startswith(f"{path}{message}")


def test_an_unknown_set_gets_a_suggestion(tmp_path: Path) -> None:
    (tmp_path / "problems.toml").write_text(f"[mine.calls]\n{KEY} = 0.5\n")
    assert problem_set(tmp_path, "mine").calls == {KEY: 0.5}
    with pytest.raises(UsageError, match=r"no set .llama3-8b-decod.; known: .*did you mean llama3-8b-decode\?"):
        problem_set(tmp_path, "llama3-8b-decod")
