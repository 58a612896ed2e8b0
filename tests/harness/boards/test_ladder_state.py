"""The state of a ladder: what leads, where to start from, which ideas are left, and what all of it has cost."""

from collections.abc import Callable
from typing import Any

import pytest

from harness.authoring import ideas, scaffold
from harness.boards import ladder_state
from harness.boards.ladder_state import LadderState
from harness.catalog.tree import Selection, Tree
from harness.judge import contract
from harness.judge.facts.hashes import families_sha256, source_sha256
from harness.records.base import SCHEMA, Cause, Status
from harness.records.builds import Build, BuildRecord
from harness.records.profiles import ProfileRecord
from harness.records.store import append, read
from tests.harness.checkout import ROOT
from tests.harness.examples import measurement, record

SHAPE = "matmul_f32fp32_8x32x16"
PLACE = ("cpu", SHAPE, "me")
Outcome = Callable[..., None]


def state(tree: Tree) -> LadderState:
    found, problems = ladder_state.state(tree, *PLACE, attempts=5)
    assert problems == []
    assert all(len(line) <= 80 for line in ladder_state.page(found).splitlines())
    return found


@pytest.fixture
def outcome(tree: Tree) -> Outcome:
    """Three iterations, and a function that records an outcome of one of them."""
    for tag in ("slow", "fast"):
        path = scaffold.new(tree, *PLACE, None, tag)
        path.write_text(path.read_text().replace(contract.PLACEHOLDER.format(name=path.stem), f"It is {tag}."))
    iterations = {each.number: each for each in tree.scan("cpu", Selection())[0]}

    def append_outcome(number: int, low: float, **changes: Any) -> None:
        iteration = iterations[number]
        told: dict[str, Any] = {
            "shape_key": SHAPE,
            "iteration": iteration.name,
            "number": number,
            "source_sha256": source_sha256(iteration.path),
            "families_sha256": families_sha256(tree.root, iteration.path),
            "measurement": measurement(low, low + 0.01, seconds=1.5),
        }
        append(tree.records(*PLACE), record(**told | changes))

    return append_outcome


def failed_build(iteration: str, source: str, families: str, attempt: str | None = None) -> BuildRecord:
    return BuildRecord(
        schema=SCHEMA,
        recorded_at="2026-01-01T00:00:00.000+00:00",
        gpu="cpu",
        shape_key=SHAPE,
        model="me",
        iteration=iteration,
        number=int(iteration[4:7]),
        status=Status.FAILED,
        source_sha256=source,
        families_sha256=families,
        arch="c",
        nvcc="",
        disassembler="",
        tilelang="0.1.15",
        analysis=1,
        judge_sha256="",
        cause=Cause.COMPILE,
        reason="no such lever",
        attempt=attempt,
        build=Build(0.5),
    )


def test_a_ladder_that_has_not_begun(tree: Tree) -> None:
    found = state(tree)
    assert (found.best, found.parent, found.bound, found.ideas, found.iterations) == (None, None, None, (), ())


def test_what_is_new_is_not_measured_and_says_its_idea(tree: Tree, outcome: Outcome) -> None:
    found = state(tree)
    assert [each.tag for each in found.iterations] == ["torch_matmul", "slow", "fast"]
    assert {each.status for each in found.iterations} == {"not measured"}
    assert found.iterations[2].idea == "It is fast."
    assert "block_N=" in (found.iterations[1].config or "")
    assert (found.best, found.parent) == (None, "iter002_fast")


def test_what_was_refused_is_no_parent(tree: Tree, outcome: Outcome) -> None:
    refused: dict[str, Any] = {"status": Status.REJECTED, "cause": Cause.WRONG_RESULT, "measurement": None}
    outcome(2, 1.0, **refused)
    assert state(tree).parent == "iter001_slow"
    outcome(1, 1.0, **refused)
    assert state(tree).parent == "iter000_torch_matmul"


def test_what_does_not_compile_is_no_parent_and_says_why(tree: Tree, outcome: Outcome) -> None:
    """A build alone has no row on the board."""
    fast = next(each for each in tree.scan("cpu", Selection())[0] if each.number == 2)
    append(tree.builds(*PLACE), failed_build(fast.name, *tree.hashes(fast)))
    found = state(tree)
    assert (found.iterations[2].status, found.iterations[2].reason) == ("failed", "no such lever")
    assert found.parent == "iter001_slow"
    fast.path.write_text(fast.path.read_text() + "# mended\n")
    assert state(tree).parent == "iter002_fast", "the mended source has not failed"


def test_the_library_is_best_and_the_fastest_kernel_is_the_parent(tree: Tree, outcome: Outcome) -> None:
    outcome(0, 1.0)
    outcome(1, 0.2)
    outcome(2, 0.1)
    found = state(tree)
    assert found.best is not None
    assert (found.best.number, found.best.decision, found.parent) == (0, "KEEP", "iter001_slow")
    assert found.measuring_seconds == 4.5


def test_a_kernel_that_is_kept_is_best_and_parent(tree: Tree, outcome: Outcome) -> None:
    outcome(1, 0.2)
    outcome(2, 0.9)
    found = state(tree)
    assert found.best is not None
    assert (found.best.iteration, found.best.ratio_low, found.parent) == ("iter002_fast", 0.9, "iter002_fast")
    path = tree.folder("cpu") / "srcs" / SHAPE / "me" / "iter002_fast.py"
    path.write_text(path.read_text() + "\n# edited since\n")
    found = state(tree)
    assert "source" in found.iterations[2].stale
    assert found.parent == "iter001_slow"


def test_a_failure_says_why_and_what_is_left(tree: Tree, outcome: Outcome) -> None:
    outcome(1, 0.0, status=Status.FAILED, cause=Cause.COMPILE, reason="no such lever", measurement=None)
    for number, source in enumerate(("a", "b", "b")):
        append(tree.builds(*PLACE), failed_build("iter001_slow", source, "", attempt=f"attempt{number:04d}"))
    found = state(tree)
    assert (found.iterations[1].status, found.iterations[1].reason) == ("failed", "no such lever")
    assert [each.attempts_left for each in found.iterations] == [5, 3, 5]
    assert found.building_seconds == 1.5
    assert "3 of 5 attempts left" in ladder_state.page(found)


def test_ideas_have_the_numbers_that_new_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the real ladder and profile of an H200."""
    tree, shape = Tree(ROOT), "matmul_bf16fp32_4096x4096x4096"
    (parent,) = tree.scan("h200", Selection(shape, "tilebench", "9"))[0]
    profiles, _ = read(tree.profiles("h200", shape, "tilebench"), ProfileRecord)
    profile = [each for each in profiles if each.iteration == parent.name][-1]
    then = profile.families_sha256
    monkeypatch.setattr("harness.catalog.tree.families_sha256", lambda *_: then)
    found = list(ladder_state._ideas(tree, parent))
    assert [each.number for each in found] == list(range(1, len(profile.ideas) + 1))
    assert {each.tag for each in found if each.tried} == {"one_in_flight", "cluster_multicast"}
    for each in found:
        chosen = ideas.suggested(tree, parent, each.number)
        assert chosen is not None
        assert (chosen.tag, chosen.sentence, chosen.config) == (each.tag, each.sentence, each.config)
    bound = ladder_state.state(tree, "h200", shape, "tilebench", 5)[0].bound
    assert bound is not None
    assert (bound.bound, bound.limiter) == ("compute", "tensor pipe")
