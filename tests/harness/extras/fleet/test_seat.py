"""A seat without Ray: it runs ladders in trees of their own, and gives what their files gained."""

import os
import signal
import tempfile
from pathlib import Path
from typing import Final

import psutil
import pytest

from harness.catalog import gpus
from harness.catalog.tree import Selection
from harness.extras.fleet.assignment import Assignment, files_of, new_key
from harness.extras.fleet.seat import SAID, START, News, Seat
from tests.harness.checkout import until
from tests.harness.extras.fleet.conftest import ROOT, SHAPES, Notebook

STUB: Final = str(Path(__file__).with_name("stub.py"))
RESULTS: Final = f"tilelang/logs/{SHAPES[0]}/me/results.jsonl"


@pytest.fixture
def seat(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> Seat:
    for name, value in notebook.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tempfile, "tempdir", None)
    notebook.ladder(SHAPES[0], 3)
    return Seat("cpu", "notebook", str(notebook.root), 0, 1)


def assignment(notebook: Notebook, **environment: str | None) -> Assignment:
    gpu = gpus.find("cpu")
    iterations, _ = notebook.tree.scan("cpu", Selection(shape=SHAPES[0]))
    words = (STUB, "bench", "--gpu", "cpu", "--shape", SHAPES[0])
    files = files_of(notebook.tree, gpu, iterations[0].problem)
    return Assignment(new_key(SHAPES[0]), "cpu", SHAPES[0], words, files, {"PYTHONPATH": str(ROOT), **environment})


def ended(seat: Seat, key: str, have: dict[str, int]) -> News:
    assert until(lambda: seat.news(key, have).exit_code is not None, 60)
    return seat.news(key, have)


def test_a_ladder_runs_and_its_lines_come_once(notebook: Notebook, seat: Seat) -> None:
    sent = assignment(notebook)
    have = {name: len(content) for name, content in sent.files.items()}
    assert sorted(have) == [f"tilelang/srcs/{SHAPES[0]}/me/iter{step:03d}_step.py" for step in range(3)]
    seat.start(sent)
    news = ended(seat, sent.key, have)
    assert news.exit_code == 0
    assert sorted(news.grown) == [SAID, RESULTS]
    assert news.grown[RESULTS].count(b"\n") == 3
    have |= {name: len(content) for name, content in news.grown.items()}
    assert seat.news(sent.key, have).grown == {}
    seat.clear(sent.key)
    assert notebook.left() == []


def test_a_file_that_no_record_makes_again_comes_whole_at_the_end(notebook: Notebook, seat: Seat) -> None:
    name = f"tilelang/perf/{SHAPES[0]}/me/ncu_iter000.ncu-rep"
    sent = assignment(notebook, LOOSE=f"tuning/cpu/{name}", PACE_S="0.3")
    seat.start(sent)
    assert until(lambda: RESULTS in seat.news(sent.key, {}).grown, 60)
    assert name not in seat.news(sent.key, {}).grown  # it may be half a file yet
    assert ended(seat, sent.key, {}).grown[name] == b"no\nline"


def test_a_host_without_room_keeps_nothing(notebook: Notebook, seat: Seat) -> None:
    sent = assignment(notebook)
    sent.files["tilelang/srcs"] = b""  # a file where a folder must be
    with pytest.raises(OSError, match="tilelang/srcs"):
        seat.start(sent)
    assert sent.key not in str(list((notebook.root / "tmp").rglob("*")))


def test_a_torn_line_waits_for_its_end(notebook: Notebook, seat: Seat) -> None:
    sent = assignment(notebook)
    seat.start(sent)
    news = ended(seat, sent.key, {})
    path = notebook.root / "tmp" / "tilebench-fleet-notebook" / sent.key / "tuning" / "cpu" / RESULTS
    with path.open("ab") as file:
        file.write(b'{"schema": 1')
    assert seat.news(sent.key, {}).grown[RESULTS] == news.grown[RESULTS]


def test_what_a_dead_seat_left_is_found_and_its_process_is_ended(notebook: Notebook, seat: Seat) -> None:
    sent = assignment(notebook, PACE_S="0.3")
    seat.start(sent)
    assert until(lambda: RESULTS in seat.news(sent.key, {}).grown, 60)
    other = Seat("cpu", "notebook", str(notebook.root), 0, 1)
    assert other.left(frozenset({sent.key})) == []  # it is in use
    (found,) = other.left(frozenset())
    assert notebook.stubs() == []
    assert (found.key, found.grown[RESULTS].count(b"\n")) == (sent.key, 3)
    seat.end(sent.key)  # it only reaps
    other.clear(sent.key)
    assert other.left(frozenset()) == []


def test_a_process_of_another_that_has_the_number_is_left_alone(notebook: Notebook, seat: Seat) -> None:
    folder = notebook.root / "tmp" / "tilebench-fleet-notebook" / "key"
    folder.mkdir(parents=True)
    (folder / START).write_text(f'{{"gpu": "cpu", "process": "{os.getpid()} 1", "have": {{}}}}')
    assert [each.key for each in seat.left(frozenset())] == ["key"]
    assert psutil.pid_exists(os.getpid())


@pytest.mark.parametrize(("how", "number"), [("stop", signal.SIGINT), ("end", signal.SIGKILL)])
def test_a_ladder_can_be_stopped(notebook: Notebook, seat: Seat, how: str, number: signal.Signals) -> None:
    sent = assignment(notebook, PACE_S="3")
    seat.start(sent)
    assert until(lambda: RESULTS in seat.news(sent.key, {}).grown, 60)  # Python has started: it takes a signal as ours
    getattr(seat, how)(sent.key)
    assert ended(seat, sent.key, {}).exit_code == -number
    assert notebook.stubs() == []


def test_a_ladder_learns_nothing_of_ray_and_keeps_the_drivers_variables(
    notebook: Notebook, seat: Seat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    sent = assignment(notebook, PACE_S="30", OMP_NUM_THREADS=None)
    seat.start(sent)
    environment: dict[str, str] = {}  # it is empty while a process becomes another program

    def has_begun() -> bool:
        for stub in notebook.stubs():
            environment.update(stub.environ())
        return "TILEBENCH_ROOT" in environment

    assert until(has_begun, 60)
    assert "RAY_AUTH_TOKEN" not in environment
    assert "OMP_NUM_THREADS" not in environment
    assert environment["TILEBENCH_ROOT"].endswith(sent.key)
    seat.end(sent.key)
