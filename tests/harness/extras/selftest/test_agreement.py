"""What A/A measurements say in all: how many intervals hold the truth, how wide they are, how far energies differ."""

import pytest

from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.extras.selftest import agreement
from harness.extras.selftest.agreement import AgreementFinding, Repeat, _line, _summary, table
from harness.judge.candidate import Referees
from harness.judge.facts.problem import parse_shape_key
from harness.machine.progress import Quiet
from tests.harness.checkout import SHAPE

MATMUL, ATTENTION = "matmul_bf16fp32_4096x4096x4096", "attention_bf16fp32_1x16x16x16384x128x128"


def repeat(ratio: float, joules_ratio: float | None) -> Repeat:
    return Repeat(ratio, ratio - 0.004, ratio + 0.004, 9.5, 0.1, 0.2, joules_ratio)


def test_energy_is_told_by_its_largest_difference() -> None:
    found = _summary(parse_shape_key(MATMUL), "events", [repeat(1.0, 0.995), repeat(1.002, 1.002), repeat(1.01, 1.0)])
    assert found.covered == 2 and found.median_half_width == pytest.approx(0.004)
    assert found.median_joules_ratio == 1.0 and found.joules_within == pytest.approx(0.005)
    assert _line(found) == f"A/A {MATMUL}: 2 of 3 cover 1, half-width 0.400%, 9.50 s, joules per launch within 0.50%"
    assert "energy within" in table([found])
    uncounted = _summary(parse_shape_key(MATMUL), "events", [repeat(1.0, None)])
    assert uncounted.joules_within is None and _line(uncounted).endswith("9.50 s")


def test_a_library_that_returns_its_output_is_held_to_the_median_since_iter000_copies_it() -> None:
    repeats = [repeat(0.985, 0.98), repeat(0.99, 0.99), repeat(0.992, 0.99)]
    found = _summary(parse_shape_key(ATTENTION), "events", repeats)
    assert (found.truth, found.covered) == (0.99, 2)
    assert found.joules_within == pytest.approx(0.01 / 0.99)
    assert "2 of 3 cover 0.99," in _line(found)
    assert "0.99, 2 of 3" in table([found])


def test_a_stop_keeps_what_was_measured(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([repeat(1.0, None), repeat(1.01, None)])

    def once(*_: object, **__: object) -> Repeat:
        try:
            return next(answers)
        except StopIteration:
            raise KeyboardInterrupt from None

    for owner, name in ((agreement, "start_forkserver"), (Referees, "seat"), (agreement, "Candidate")):
        monkeypatch.setattr(owner, name, lambda *_: None)
    monkeypatch.setattr(agreement, "_once", once)
    path = tree.folder("cpu") / "srcs" / SHAPE / "me" / "iter000_torch_matmul.py"
    found = list[AgreementFinding]()
    with pytest.raises(KeyboardInterrupt):
        found.extend(agreement.repeat(tree, gpus.find("cpu"), None, [tree.parse(path)], 9, Quiet()))
    assert [(each.covered, len(each.repeats)) for each in found] == [(1, 2)]
