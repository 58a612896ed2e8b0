"""Which ladder a GPU takes, and what it need not measure again."""

from functools import partial

import msgspec
import pytest

from harness.catalog import gpus
from harness.catalog.tree import Selection, Tree
from harness.extras.fleet.ladders import Ladder, choose, ladders
from harness.judge.candidate import Settings
from harness.judge.facts.hashes import families_sha256, source_sha256
from harness.records.base import Environment
from harness.records.store import append
from harness.runs.run import Plan
from tests.harness.examples import ENVIRONMENT, record

SHAPES = [f"matmul_f32fp32_{size}x8x8" for size in (16, 24, 32)]
CHIPS = ("GPU-a", "GPU-b")


@pytest.fixture
def plan(tree: Tree) -> Plan:
    """Three ladders: of one step, of two, of three."""
    for steps, shape in enumerate(SHAPES, start=1):
        folder = tree.sources("cpu", shape, "me")
        folder.mkdir(parents=True)
        for step in range(steps):
            (folder / f"iter{step:03d}_step.py").write_text('"""A step."""\n')
    gpu = gpus.find("cpu")
    return Plan(tree, gpu, None, tuple(tree.scan("cpu", Selection())[0]), Settings.of(gpu))


def environment(chip: str) -> Environment:
    return msgspec.structs.replace(ENVIRONMENT, device_uuid=chip)


def of_chip(chip: str, operator: str) -> Environment:
    return environment(chip)


ENVIRONMENTS = {chip: partial(of_chip, chip) for chip in CHIPS}


def measured(plan: Plan, shape: str, chip: str, steps: int) -> None:
    for each in [each for each in plan.iterations if each.shape_key == shape][:steps]:
        hashes = {
            "source_sha256": source_sha256(each.path),
            "families_sha256": families_sha256(plan.tree.root, each.path),
        }
        named = {"shape_key": shape, "iteration": each.name, "number": each.number}
        append(plan.tree.records("cpu", shape, "me"), record(**named, **hashes, environment=environment(chip)))


def test_the_longest_is_first(plan: Plan) -> None:
    waiting, done = ladders(plan, ENVIRONMENTS)
    assert done == []
    taken = []
    while found := choose(waiting, "GPU-a", CHIPS):
        waiting.remove(found)
        taken.append(found.shape_key)
    assert taken == list(reversed(SHAPES))


def test_what_one_chip_has_measured_needs_no_gpu(plan: Plan) -> None:
    measured(plan, SHAPES[2], "GPU-a", 3)
    waiting, done = ladders(plan, ENVIRONMENTS)
    assert [each.shape_key for each in waiting] == SHAPES[:2]
    assert [each.iteration for each in done] == ["iter000_step", "iter001_step", "iter002_step"]
    waiting, done = ladders(plan, ENVIRONMENTS, further=True)
    assert [(each.shape_key, each.home) for each in waiting] == [
        (SHAPES[0], None),
        (SHAPES[1], None),
        (SHAPES[2], "GPU-a"),
    ]
    assert done == []


def test_what_a_chip_outside_the_fleet_has_measured_is_measured_again(plan: Plan) -> None:
    measured(plan, SHAPES[2], "GPU-elsewhere", 3)
    assert len(ladders(plan, ENVIRONMENTS)[0]) == 3


def test_halves_of_two_chips_make_no_whole(plan: Plan) -> None:
    measured(plan, SHAPES[2], "GPU-a", 2)
    for each in CHIPS:
        measured(plan, SHAPES[1], each, 1)
    waiting, done = ladders(plan, ENVIRONMENTS)
    assert done == []
    assert [each.left("GPU-a") for each in waiting] == [1, 1, 1]
    assert [each.left("GPU-b") for each in waiting] == [1, 1, 3]


def test_a_begun_ladder_goes_to_its_own_chip(plan: Plan) -> None:
    measured(plan, SHAPES[2], "GPU-a", 2)
    waiting, _ = ladders(plan, ENVIRONMENTS)
    assert (found := choose(waiting, "GPU-b", CHIPS)) and found.shape_key == SHAPES[1]
    assert (found := choose(waiting, "GPU-a", CHIPS)) and found.shape_key == SHAPES[2]


def ladder(plan: Plan, shape: str, **begun: int) -> Ladder:
    named = {f"GPU-{chip}": count for chip, count in begun.items()}
    iterations = tuple(each for each in plan.iterations if each.shape_key == shape)
    return Ladder(iterations[0].problem, iterations, named)


def test_an_idle_chip_takes_anothers_ladder_only_where_that_saves_time(plan: Plan) -> None:
    one = ladder(plan, SHAPES[2], a=1)
    assert choose([one], "GPU-b", CHIPS) is None  # 2 to go there, 3 here
    more = [one, ladder(plan, SHAPES[1], a=1), ladder(plan, SHAPES[0])]
    assert (found := choose(more[:2], "GPU-b", CHIPS)) and found.shape_key == SHAPES[1]  # 3 to go there, 2 here
    assert (found := choose(more, "GPU-b", CHIPS)) and found.shape_key == SHAPES[0]


def test_the_ladder_of_a_chip_that_is_gone_goes_to_any(plan: Plan) -> None:
    assert choose([ladder(plan, SHAPES[2], a=1)], "GPU-b", ("GPU-b",)) is not None


def test_nothing_waits() -> None:
    assert choose([], "GPU-a", CHIPS) is None
