"""A ladder that begins beside the last rows of the one before: real seats and command lines, without Ray."""

import tempfile
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from harness.catalog import gpus
from harness.catalog.tree import Selection, Tree
from harness.errors import InfrastructureError
from harness.extras.fleet import cluster, driver
from harness.extras.fleet.cluster import Caller, Node, SeatFailed, SeatLost
from harness.extras.fleet.driver import Driver, Fleet, Post, SentLadder
from harness.extras.fleet.ladders import Ladder
from harness.extras.fleet.seat import Seat
from harness.extras.fleet.station import Station
from harness.extras.fleet.table import FleetRow
from harness.judge.candidate import Settings
from harness.judge.facts.problem import parse_shape_key
from harness.runs.run import Plan
from harness.runs.within import Deadline
from tests.harness.checkout import until
from tests.harness.extras.fleet.conftest import SHAPES, Notebook

STUB: Final = str(Path(__file__).with_name("stub.py"))
NODE: Final = Node("id", "host", 1)


@dataclass(eq=False)
class SeatActor:
    """Answers with a seat in place of Ray; ``calls`` are the methods it was asked, each with the ladder."""

    seat: Seat
    broken: dict[str, Exception] = field(default_factory=dict)  # by the method
    calls: list[tuple[str, ...]] = field(default_factory=list)

    def __getattr__(self, method: str) -> "SeatMethod":
        return SeatMethod(self, method)


@dataclass
class SeatMethod:
    actor: SeatActor
    method: str

    def remote(self, *arguments: Any) -> object:
        keys = [each if isinstance(each, str) else getattr(each, "key", None) for each in arguments[:2]]
        self.actor.calls.append((self.method, *[each.partition("-")[0] for each in keys if each]))
        late = "start early" if self.method == "start" and len(keys) == 2 and keys[1] else self.method
        try:
            if late in self.actor.broken:
                raise self.actor.broken[late]
            return getattr(self.actor.seat, self.method)(*arguments)
        except SeatLost as error:
            return error
        except (OSError, KeyError) as error:
            return SeatFailed(str(error))


def given(answer: Any, seconds: float | None = None) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer


@pytest.fixture
def actors(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> list[SeatActor]:
    """The seats of a fleet, as the driver makes them."""
    for name, value in notebook.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tempfile, "tempdir", None)
    made: list[SeatActor] = []

    def seat(node: Node, lane: int, gpu: Any, key: str, root: Path, **more: Any) -> Caller:
        made.append(SeatActor(Seat(gpu.key, key, str(root), lane, node.seats)))
        return Caller(node, lane, made[-1])

    def give_up(caller: Caller) -> None:
        for process in caller.actor.seat._running.values():
            process.kill()
            process.wait()

    monkeypatch.setattr(cluster, "seat", seat)
    monkeypatch.setattr(cluster, "give_up", give_up)
    monkeypatch.setattr(cluster, "nodes", lambda gpu, **more: [NODE])
    monkeypatch.setattr(cluster, "ready", lambda references, seconds: references)
    monkeypatch.setattr(cluster, "answered", given)
    return made


def begun(notebook: Notebook, steps: tuple[int, ...], **more: Any) -> Driver:
    """A driver with its seat; its ladders have so many steps, the longest first."""
    for shape, number in zip(SHAPES, steps, strict=False):
        notebook.ladder(shape, number)
    gpu = gpus.find("cpu")
    iterations, _ = notebook.tree.scan("cpu", Selection())
    plan = Plan(notebook.tree, gpu, None, tuple(iterations), Settings.of(gpu))
    words = ("bench", "--gpu", "cpu", "--shape", driver.SHAPE)
    made = Driver(Fleet(plan, words, program=(STUB,), **more), None)
    made.take_seats()
    return made


def starts(actor: SeatActor) -> list[tuple[str, ...]]:
    return [each[1:] for each in actor.calls if each[0] == "start"]


def whole(notebook: Notebook, *steps: int) -> bool:
    expected = [
        (shape, f"iter{step:03d}_step") for shape, last in zip(SHAPES, steps, strict=False) for step in range(last)
    ]
    return notebook.names() == sorted(expected)


def test_the_next_ladder_begins_beside_the_last_rows_and_becomes_the_present_one(
    notebook: Notebook, actors: list[SeatActor]
) -> None:
    made = begun(notebook, (2, 2, 1))
    made.work()
    made.leave()
    first, second, third = SHAPES[1], SHAPES[0], SHAPES[2]  # as ``choose`` orders them
    assert starts(actors[0]) == [(first,), (second, first), (third, second)]
    calls = actors[0].calls
    assert calls.index(("start", second, first)) < calls.index(("clear", first))
    assert set(made.tries.values()) == {1}
    recorded = sorted(notebook.records(), key=lambda each: int(each.recorded_at))
    assert [each.shape_key for each in recorded] == [first, first, second, second, third]
    assert whole(notebook, 2, 2, 1)
    assert notebook.left() == []


def test_a_ladder_with_many_rows_left_is_not_followed_yet(notebook: Notebook, actors: list[SeatActor]) -> None:
    made = begun(notebook, (3, 3))
    made._assign(made.posts[0])
    made._hear(made.posts[0])
    assert made.posts[0].early is None
    assert len(starts(actors[0])) == 1
    made.leave()


def early(notebook: Notebook, **more: Any) -> tuple[Driver, Post]:
    """Two ladders of two steps on one seat: the first is the present one, the second waits for its turn."""
    made = begun(notebook, (2, 2), **more)
    post = made.posts[0]
    made._assign(post)
    made._hear(post)
    assert post.present is not None and post.early is not None
    return made, post


def test_a_lost_seat_gives_both_ladders_back(
    notebook: Notebook, actors: list[SeatActor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACE_S", "0.2")
    made, post = early(notebook)
    present, waits = post.sent[1].ladder.shape_key, post.sent[0].ladder.shape_key
    made._lost(post, "killed")
    assert made.posts[0].caller.actor is actors[1]
    assert [each.shape_key for each in made.waiting] == [present, waits]
    assert (made.tries[present], made.tries[waits]) == (1, 0)
    assert notebook.left() == []
    made.work()
    made.leave()
    assert whole(notebook, 2, 2)
    assert (made.tries[present], made.tries[waits]) == (2, 1)


def test_a_killed_command_line_lets_the_early_ladder_take_its_turn(
    notebook: Notebook, actors: list[SeatActor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACE_S", "0.2")
    made, post = early(notebook)
    present, waits = post.sent[1], post.sent[0]
    actors[0].seat.end(present.key)
    made.work()
    made.leave()
    assert [each[0] for each in starts(actors[0])].count(waits.ladder.shape_key) == 1
    assert (made.tries[present.ladder.shape_key], made.tries[waits.ladder.shape_key]) == (2, 1)
    assert whole(notebook, 2, 2)


def test_a_gpu_that_is_left_out_ends_the_early_ladder_which_costs_no_try(
    notebook: Notebook, actors: list[SeatActor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFUSES", "3")
    made, post = early(notebook)
    waits = post.sent[0].ladder.shape_key
    with pytest.raises(InfrastructureError, match="no GPU is left"):
        made.work()
    assert {each.shape_key for each in made.waiting} == set(SHAPES[:2])
    assert made.tries[waits] == 0
    assert ("clear", waits) in actors[0].calls
    assert notebook.stubs() == []
    assert notebook.left() == []


def test_a_host_without_room_for_two_measures_one_after_the_other(
    notebook: Notebook, actors: list[SeatActor], capsys: pytest.CaptureFixture[str]
) -> None:
    made = begun(notebook, (2, 2))
    actors[0].broken["start early"] = SeatFailed("No space left on device")
    made.work()
    made.leave()
    assert f"{SHAPES[0]} cannot begin early: No space left on device" in " ".join(capsys.readouterr().err.split())
    assert starts(actors[0]) == [(SHAPES[1],), (SHAPES[0], SHAPES[1]), (SHAPES[0],)]
    assert whole(notebook, 2, 2)
    assert set(made.tries.values()) == {1}


def test_a_stopped_run_ends_both(notebook: Notebook, actors: list[SeatActor], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACE_S", "30")
    monkeypatch.setattr(driver, "END_S", 60.0)  # a busy machine ends them late
    made, _ = early(notebook)
    made.leave()
    assert notebook.stubs() == []
    assert notebook.left() == []
    assert notebook.names() == []


@pytest.mark.parametrize("further", [True, False])
def test_a_free_gpu_takes_the_early_ladder_of_one_that_may_measure_opponents_for_long(
    notebook: Notebook, actors: list[SeatActor], monkeypatch: pytest.MonkeyPatch, *, further: bool
) -> None:
    monkeypatch.setenv("PACE_S", "30")
    made, post = early(notebook, further=further)
    made._hear(post)  # the early one has begun
    waits = post.sent[0].ladder
    free = Post(made._seat(NODE, 0), post.station, FleetRow("host", "1"))
    made.posts.append(free)
    made._assign(free)
    if further:
        assert (free.sent[0].ladder, post.early) == (waits, None)
        assert made.tries[waits.shape_key] == 1
    else:
        assert (free.sent, post.sent[0].ladder) == ([], waits)
    assert until(lambda: len(notebook.stubs()) == 2, 30)
    made.leave()


def test_what_may_begin_early(tree: Tree) -> None:
    """Not beside one that measures the same copy, nor where a time, an image or another verb is set."""
    h200 = gpus.find("h200")
    copying = [Ladder(parse_shape_key(f"{name}_bf16fp32_4096x4096")) for name in ("softmax", "rmsnorm")]
    product = Ladder(parse_shape_key("matmul_bf16fp32_4096x4096x4096"))
    plan = Plan(tree, h200, None, (), Settings.of(h200))

    def chosen(
        present: Ladder, *waiting: Ladder, left: int = 2, followed: bool = False, **changes: Any
    ) -> Ladder | None:
        made = Driver(replace(Fleet(plan, ()), **changes), None)
        sent = SentLadder(present, "key", {}, followed=followed)
        post = Post(Caller(NODE, 0, None), Station("host", "code"), FleetRow("host", "0", left=left), sent)
        made.posts, made.waiting = [post], list(waiting)
        return made._next_early(post, sent)

    follows = partial(chosen, product, *copying)
    assert follows() in copying
    assert chosen(copying[0], copying[0]) is None
    assert chosen(copying[0], product, copying[0]) is product
    assert chosen(product) is None
    assert follows(left=3) is None
    assert follows(followed=True) is None
    assert follows(image="judge:1") is None
    assert follows(errands=(product.problem,)) is None
    assert follows(plan=replace(plan, deadline=Deadline.within(1.0))) is None
