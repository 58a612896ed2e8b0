"""Several outputs, integers, truth values, lengths, pages and inputs that are overwritten: wrong ones are found."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

import baselines
from harness.judge.child import trials
from harness.judge.facts.fills import Integers, Lengths, Mask, PageTable, Words
from harness.judge.facts.operator import Input, Operator, Output
from harness.judge.facts.problem import parse_shape_key
from harness.operators import OPERATORS
from tests.harness.operators.launches import Launch, placed, tried

Tensors = list[torch.Tensor]


def _past(lengths: torch.Tensor, most: int) -> torch.Tensor:
    return torch.arange(most, device=lengths.device) >= lengths[:, None]


def _decode(q: Any, pages: Any, table: Any, lengths: Any) -> Any:
    """Means of the rows of a sequence, weighed by q, from pages of tokens."""
    rows = pages[table.long()].flatten(1, 2)
    seen = ~_past(lengths, rows.shape[1])
    return torch.where(seen[..., None], rows, 0).sum(1) * q / lengths[:, None]


def _unread(q: Any, pages: Any, table: Any, lengths: Any) -> dict[str, Any]:
    """Pages that no table names, and what lies beyond a length."""
    hidden = torch.ones(pages.shape[:2], dtype=torch.bool, device=q.device)
    size = pages.shape[1]
    hidden[table.long().flatten()] = _past(lengths, table.shape[1] * size).view(-1, size)
    return {"pages": hidden}


def _mixed(x: Any, words: Any, mask: Any, chosen: Any) -> tuple[Any, Any, Any, Any]:
    unpacked = (words.int() & 15) - 8
    kept = mask & (unpacked > 0)
    return x * unpacked, kept, kept.sum(dim=1), x + chosen[:, None].to(x.dtype)


MADE = (
    Operator(
        name="decode",
        dims=("B", "D", "T", "S", "P"),
        inputs={
            "q": Input("B, D"),
            "pages": Input("P, S, D"),
            "table": Input("B, T", "int32", PageTable("P")),
            "lengths": Input("B", "int32", Lengths("T * S")),
        },
        outputs={"o": Output("B, D", terms="T * S")},
        flops="B * D * T * S",
        reference=_decode,
        unread=_unread,
    ),
    Operator(
        name="mixed",
        dims=("M", "N"),
        inputs={
            "x": Input("M, N"),
            "words": Input("M, N", "uint8", Words()),
            "mask": Input("M, N", "bool", Mask(0.5)),
            "chosen": Input("M", "int64", Integers(5)),
        },
        outputs={
            "y": Output("M, N", scale=1.2),
            "kept": Output("M, N", "bool"),
            "count": Output("M", "int64"),
            "moved": Output(inplace="x", scale=3.0),
        },
        flops="M * N",
        reference=_mixed,
        rows=("x", "words", "mask", "chosen"),
    ),
    Operator(
        name="halved",
        dims=("M", "N"),
        inputs={"x": Input("M, N")},
        outputs={"y": Output(inplace="x", scale=0.5)},
        flops="M * N",
        reference=lambda x: x / 2,
        rows=("x",),
    ),
)


@pytest.fixture(autouse=True)
def _operators(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in MADE:
        monkeypatch.setitem(OPERATORS, each.name, each)


def _honest_decode(q: Any, pages: Any, table: Any, lengths: Any, o: Any) -> None:
    for each in range(len(q)):
        rows = pages[table[each].long()].flatten(0, 1)[: lengths[each]]
        o[each] = rows.sum(0) * q[each] / lengths[each]


def _honest_mixed(x: Any, words: Any, mask: Any, chosen: Any, y: Any, kept: Any, count: Any) -> None:
    made = _mixed(x.clone(), words, mask, chosen)
    for tensor, result in zip((y, kept, count, x), made, strict=True):
        tensor.copy_(result)


DECODE = "decode_f32fp32_3x8x4x4x16"
MIXED = "mixed_f32fp32_48x16"
HALVED = "halved_f32fp32_48x16"


def _after(honest: Launch, change: Callable[[Tensors], object]) -> Launch:
    def launch(*tensors: torch.Tensor) -> None:
        honest(*tensors)
        change(list(tensors))

    return launch


def _one_row_more(q: Any, pages: Any, table: Any, lengths: Any, o: Any) -> None:
    _honest_decode(q, pages, table, (lengths + 1).clamp(max=16), o)


def _all_rows(q: Any, pages: Any, table: Any, lengths: Any, o: Any) -> None:
    rows = pages[table.long()].flatten(1, 2)
    weights = (~_past(lengths, 16)).to(rows.dtype)
    o.copy_(torch.einsum("bsd,bs->bd", rows, weights) * q / lengths[:, None])  # 0 times what lies beyond


def _last_page_skipped(q: Any, pages: Any, table: Any, lengths: Any, o: Any) -> None:
    _honest_decode(q, pages, table, lengths.clamp(max=12), o)


def _halved(x: Any) -> None:
    x.div_(2)


@pytest.mark.parametrize(("key", "launch"), [(DECODE, _honest_decode), (MIXED, _honest_mixed), (HALVED, _halved)])
def test_an_honest_launch_is_right(key: str, launch: Launch) -> None:
    found, share, held = tried(key, launch)
    assert found == []
    assert share is not None and share <= 1
    assert held


@pytest.mark.parametrize("launch", [_one_row_more, _all_rows, _last_page_skipped])
def test_a_launch_that_looks_beyond_a_length_or_not_so_far_is_wrong(launch: Launch) -> None:
    found, share, _ = tried(DECODE, launch)
    assert found
    assert share is None or share > 1


@pytest.mark.parametrize("launch", [lambda x: None, lambda x: x[6:].div_(2), lambda x: x.div_(4)])
def test_what_is_all_written_in_place_must_be_right_too(launch: Launch) -> None:
    found, share, held = tried(HALVED, launch)
    assert len(found) == 1 and found[0].startswith("random trial: max_abs_err")
    assert share is None or share > 1
    assert held


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t[4].__setitem__((0, 3), 0.5), "y, random trial: max_abs_err"),
        (lambda t: t[5].__setitem__((0, 3), ~t[5][0, 3]), "kept, random trial: it must match bit for bit"),
        (lambda t: t[5].view(torch.uint8).fill_(0x80), "kept, random trial: it must match bit for bit"),
        (lambda t: t[6].__setitem__(slice(None), t[6] + 1), "count, random trial: it must match bit for bit"),
        (lambda t: trials.poison([t[6]]), "count, random trial: it must match bit for bit"),
        (lambda t: t[0].sub_(0.5), "moved, random trial: max_abs_err"),
    ],
)
def test_one_wrong_output_of_several_is_named(change: Callable[[Tensors], object], says: str) -> None:
    found, _, held = tried(MIXED, _after(_honest_mixed, change))
    assert len(found) == 1 and found[0].startswith(says)
    assert held


@pytest.mark.parametrize(
    "change",
    [
        lambda t: trials.poison([t[6]]),
        lambda t: trials.poison([t[4]]),
        lambda t: t[6].add_(1),
        lambda t: t[0].sub_(0.5),
    ],
)
def test_a_look_at_timed_launches_sees_it_too(change: Callable[[Tensors], object]) -> None:
    _, share, _ = tried(MIXED, _after(_honest_mixed, change))
    assert share is None or share > 1


@pytest.mark.parametrize("dtype", ["int64", "int32", "bool", "uint8", "float32"])
def test_a_skipped_launch_shows_in_an_output_of_any_dtype(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where none of the launches that are looked at is the skipped one."""
    given = {"x": Input("N", "int32", Integers(2))}
    wide = Operator(
        name="wide", dims=("N",), inputs=given, outputs={"y": Output("N", dtype)}, flops=0, reference=lambda x: x
    )
    monkeypatch.setitem(OPERATORS, "wide", wide)
    monkeypatch.setattr(trials, "deviation", lambda *_: torch.zeros(1))
    contents = placed("wide_f32fp32_64", sets=50)
    contents.refresh()
    for number, (x, y) in enumerate(contents.sets):
        if number != 33:
            y.copy_(x)
    assert contents.look(49, None, []).off is None
    contents.sets[33][1].copy_(contents.sets[33][0])
    assert contents.look(49, None, []).off == 0


@pytest.mark.parametrize("position", [1, 2, 3])
def test_an_input_that_is_not_to_be_overwritten_must_stay(position: int) -> None:
    _, _, held = tried(MIXED, _after(_honest_mixed, lambda t: t[position].zero_()))
    assert not held


def _library(key: str, change: Callable[[Tensors], object] = lambda t: None) -> Launch:
    return _after(baselines.library(parse_shape_key(key)), change)


TOPK = "topk_f32fp32_48x64x8"


@pytest.mark.parametrize(
    ("trial", "change"),
    [
        ("random", lambda t: t[2].add_(1)),
        ("random", lambda t: t[2].__setitem__((5, 2), 64)),
        ("random", lambda t: t[2].__setitem__((5, 2), -1)),
        ("random", lambda t: t[2].__setitem__((5, 2), 2**40)),
        ("exact", lambda t: t[2].copy_(t[2][:, :1].expand(-1, 8).clone())),
        ("random", lambda t: t[2][:, :2].copy_(t[2][:, :2].flip(1).clone())),
    ],
    ids=["others", "out of range", "below range", "far out of range", "one tie for all", "out of order"],
)
def test_wrong_positions_of_right_values_are_wrong(trial: str, change: Callable[[Tensors], object]) -> None:
    found, _, _ = tried(TOPK, _library(TOPK, change), trial)
    assert found and found[0].startswith(f"indices, {trial} trial: ")


@pytest.mark.parametrize("trial", ["random", "exact", "corners"])
def test_any_position_of_equal_values_is_right(trial: str) -> None:
    def backwards(x: torch.Tensor, values: torch.Tensor, indices: torch.Tensor) -> None:
        found = x.flip(1).sort(dim=1, descending=True, stable=True)
        values.copy_(found.values[:, :8])
        indices.copy_(63 - found.indices[:, :8])

    assert tried(TOPK, backwards, trial)[0] == []


SEVERAL = ("rmsnorm_f32fp32_48x64", "crossentropy_f32fp32_48x64", TOPK)


@pytest.mark.parametrize("key", SEVERAL)
def test_a_right_first_output_does_not_cover_a_wrong_second_one(key: str) -> None:
    honest, share, held = tried(key, _library(key))
    assert honest == [] and share is not None and share <= 1 and held
    found, share, _ = tried(key, _library(key, lambda t: t[-1].view(-1)[:7].add_(1)))
    (_, second) = parse_shape_key(key).output_names
    assert [each.startswith(f"{second}, random trial: ") for each in found] == [True]
    unwritten, share, _ = tried(key, _library(key, lambda t: trials.poison([t[-1]])))
    assert len(unwritten) == 1 and share is None


@pytest.mark.parametrize(
    "reference", [lambda x, *_: x, lambda x, *_: (x[:1], x[:1] > 0, x[:1, 0].long(), x[:1])], ids=["too few", "one row"]
)
def test_a_reference_that_returns_other_outputs_is_refused(
    reference: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OPERATORS, "mixed", replace(MADE[1], reference=reference))
    with pytest.raises(ValueError, match="operator mixed: its reference returns"):
        tried(MIXED, _honest_mixed)


def test_a_float_is_compared_as_one_where_the_reference_returns_an_integer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        OPERATORS,
        "mixed",
        replace(MADE[1], reference=lambda *given: (_mixed(*given)[0].round().long(), *_mixed(*given)[1:])),
    )
    assert [each.split(",")[0] for each in tried(MIXED, _honest_mixed)[0]] == ["y"]
