"""What a ladder has tried already is not suggested again, on the real ladders and profiles of the H200."""

import pytest

from harness.authoring.ideas import suggested, untried
from harness.catalog.tree import Iteration, Selection, Tree
from harness.records.profiles import ProfileRecord
from harness.records.store import read
from tests.harness.checkout import ROOT

TREE = Tree(ROOT)


def found(shape: str, number: int) -> tuple[Iteration, ProfileRecord]:
    selection = Selection(shape=shape, model="tilebench", iteration=str(number))
    (iteration,) = TREE.scan("h200", selection)[0]
    profiles, _ = read(TREE.profiles("h200", shape, "tilebench"), ProfileRecord)
    return iteration, [each for each in profiles if each.iteration == iteration.name][-1]


@pytest.mark.parametrize(
    ("shape", "number", "tried"),
    [
        ("matmul_bf16fp32_4096x4096x4096", 9, {"one_in_flight", "cluster_multicast"}),
        ("linear_bf16fp32_4096x14336x4096", 4, {"drain_each_step"}),
        ("matmul_bf16fp32_4096x4096x4096", 1, set()),
    ],
)
def test_an_idea_that_another_iteration_pins_is_not_suggested(shape: str, number: int, tried: set[str]) -> None:
    iteration, profile = found(shape, number)
    left = untried(TREE, iteration, profile.ideas)
    assert {idea.tag for idea in profile.ideas} - {idea.tag for idea in left} == tried


def test_the_next_iteration_starts_from_the_first_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    iteration, profile = found("linear_bf16fp32_4096x14336x4096", 4)
    then = profile.families_sha256
    monkeypatch.setattr("harness.catalog.tree.families_sha256", lambda *_: then)
    chosen, first = suggested(TREE, iteration, None), suggested(TREE, iteration, 1)
    assert chosen is not None
    assert chosen.tag == "cluster_multicast"
    assert first == profile.ideas[0]  # asked for by its number, as the profile shows it
    assert suggested(TREE, iteration, 0) is None


def test_where_all_is_tried_nothing_is_suggested() -> None:
    iteration, _ = found("matmul_bf16fp32_4096x4096x4096", 9)
    assert suggested(TREE, iteration, None) is None
