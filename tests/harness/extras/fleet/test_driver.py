"""Fleets of simulated GPUs on Ray: each ladder once, nothing lost or doubled whatever dies, and nothing left running.

A stub stands in the place of the judge, since this is about the driver.
"""

import fcntl
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from harness.catalog import gpus
from harness.cli.app import carry_out
from harness.errors import ExitCode
from harness.extras.fleet.assignment import notebook_id
from harness.extras.fleet.driver import MOST_TRIES
from tests.harness.checkout import one_line, until
from tests.harness.container.fake_engine import FakeEngine
from tests.harness.extras.fleet.conftest import SHAPES, Notebook

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="the extra fleet is not installed")


def complete(notebook: Notebook, steps: int) -> bool:
    return notebook.names() == sorted((shape, f"iter{step:03d}_step") for shape in SHAPES[:4] for step in range(steps))


@pytest.fixture
def four(notebook: Notebook) -> Notebook:
    """Four ladders of four steps."""
    for shape in SHAPES[:4]:
        notebook.ladder(shape, 4)
    return notebook


def test_each_ladder_is_measured_once_and_a_second_run_measures_nothing(four: Notebook) -> None:
    code, said = four.run(2)
    assert code == ExitCode.PASSED, said
    assert four.printed == "16 0\n"
    assert complete(four, 4)
    assert said.count("passed    matmul") == 16
    assert (four.tree.folder("cpu") / "perf" / SHAPES[0] / "me" / "timing_iter003.txt").is_file()
    assert four.left() == []
    code, said = four.run(2)
    assert (code, four.printed) == (ExitCode.PASSED, "16 16\n")
    assert said.count("(recorded before)") == 16
    assert complete(four, 4)
    assert until(lambda: not four.processes(), 20)


def test_a_ladder_goes_on_after_its_share_of_the_time_and_no_other_begins_after_the_end(four: Notebook) -> None:
    code, said = four.run(2, SECONDS="100", MOST="2")  # the last ladder may begin after 80 s, or eight records
    assert code == ExitCode.PASSED, said
    measured, reused, left = map(int, four.printed.split())
    assert (measured + left, reused) == (16, 0)
    assert 8 < measured < 16
    assert len(four.names()) == len(set(four.names())) == measured
    code, said = four.run(2, SECONDS="1000", MOST="1")
    assert (code, four.printed) == (ExitCode.PASSED, f"16 {measured} 0\n"), said
    assert complete(four, 4)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_ends_keeps_what_was_measured_and_goes_on(four: Notebook, number: signal.Signals) -> None:
    driver = four.start(2, PACE_S="0.7")
    assert until(lambda: len(four.records()) >= 3, 60)
    # each costs a run a second
    unasked = ("dashboard/dashboard.py", "monitor.py", "log_monitor.py", "ray::DashboardAgent", "ray::RuntimeEnvAgent")
    assert not [words for each in four.processes() for words in each.cmdline() if words.strip().endswith(unasked)]
    if number == signal.SIGINT:
        os.killpg(driver.pid, number)  # as a terminal does
    else:
        driver.send_signal(number)
    assert driver.wait(120) == ExitCode.INFRASTRUCTURE
    assert until(lambda: not four.processes(), 120)
    assert "stopped; what is recorded stays" in one_line(four.said)
    assert four.left() == []
    kept = four.names()
    assert 3 <= len(kept) == len(set(kept))
    assert four.run(2)[0] == ExitCode.PASSED
    assert complete(four, 4)


@pytest.mark.slow
def test_after_a_killed_driver_the_next_run_gathers_first(four: Notebook) -> None:
    driver = four.start(2, PACE_S="0.7")
    assert until(lambda: len(four.records()) >= 2, 60)
    for stub in four.stubs():
        stub.suspend()  # so that what it does next is done after the driver's death
    driver.kill()
    driver.wait()
    for stub in four.stubs():
        stub.resume()
    assert until(lambda: not four.processes(), 30), [each.cmdline() for each in four.processes()]
    measured = sum(path.read_text().count("\n") for path in (four.root / "tmp").rglob("logs/*/*/results.jsonl"))
    assert measured >= 2
    code, said = four.run(2)
    assert code == ExitCode.PASSED, said
    assert complete(four, 4)
    assert four.left() == []


Victims = Callable[[Notebook], list[psutil.Process]]


@pytest.mark.slow
@pytest.mark.parametrize("victims", [Notebook.seats, Notebook.stubs], ids=["worker", "subprocess"])
def test_a_killed_worker_or_subprocess_loses_and_doubles_nothing(four: Notebook, victims: Victims) -> None:
    driver = four.start(2, PACE_S="0.5")
    assert until(lambda: len(four.records()) >= 2, 60)
    random.choice(victims(four)).kill()
    assert driver.wait(120) == ExitCode.PASSED, four.said
    assert complete(four, 4)
    assert "it goes on" in four.said
    assert four.left() == []


@pytest.mark.slow
def test_a_ladder_that_fails_on_every_try_is_given_up_and_the_others_are_measured(notebook: Notebook) -> None:
    notebook.ladder(SHAPES[0], 2)
    notebook.ladder(SHAPES[1], 6)
    code, said = notebook.run(2, REFUSES="1", AT="iter005_step")
    assert code == ExitCode.INFRASTRUCTURE
    assert said.count("ended with 1: tilebench: the stub refuses; it goes on") == 2
    assert one_line(said).endswith("given up after 3 tries")
    assert len(notebook.names()) == 7


@pytest.mark.slow
def test_a_gpu_on_which_nothing_can_be_measured_is_left_out(four: Notebook) -> None:
    code, said = four.run(2, REFUSES="3")
    assert code == ExitCode.INFRASTRUCTURE
    assert said.count("this GPU is left out") == 2
    assert "no GPU is left for matmul" in one_line(said)
    assert four.names() == []


@pytest.mark.slow
def test_an_errand_is_done_with_its_command_line_and_brings_all_that_it_wrote(four: Notebook) -> None:
    name = "tilelang/perf/of/me/ncu_iter000.csv"
    code, said = four.run(2, ERRANDS="1", LOOSE=f"tuning/cpu/{name}", REFUSES="1", AT="iter003_step")
    assert code == ExitCode.REJECTED
    assert "it goes on" not in said
    assert said.count(": tilebench: the stub refuses") == 4  # the lines of each command line come as they are
    assert all(said.count(f": recorded cpu/{shape}/me/iter002_step\n") == 1 for shape in SHAPES[:4])
    assert all(said.count(f": {shape}: rejected") == 1 for shape in SHAPES[:4])
    assert complete(four, 3)
    assert (four.root / "tuning" / "cpu" / name).read_bytes() == b"no\nline"
    assert four.left() == []


@pytest.mark.slow
def test_with_an_image_each_command_line_runs_in_a_container_with_its_cores_and_tree(
    notebook: Notebook, tmp_path: Path
) -> None:
    for shape in SHAPES[:2]:
        notebook.ladder(shape, 2)
    with FakeEngine(tmp_path / "docker.sock") as docker:
        code, said = notebook.run(2, IMAGE="judge:1", DOCKER_HOST=docker.host)
        assert (code, notebook.printed) == (ExitCode.PASSED, "4 0\n"), said
        assert {each.environment.image for each in notebook.records()} == {docker.image}
        assert len(docker.created) == 4  # two say what they are, two measure
        assert docker.links == []  # a container sees only its tree
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(cores)})
        try:
            assert notebook.run(2, IMAGE="judge:1", DOCKER_HOST=docker.host)[0] == ExitCode.PASSED
        finally:
            os.sched_setaffinity(0, cores)
        assert notebook.printed == "4 4\n"
        assert os.cpu_count() == 1 or docker.created[-1]["HostConfig"]["CpusetCpus"] == str(min(cores))
        code, said = notebook.run(1, IMAGE="nothing", DOCKER_HOST=docker.host)
    assert code == ExitCode.INFRASTRUCTURE
    assert "is not used: image nothing: tilebench: no image 'nothing' here: make image builds one" in said
    assert notebook.left() == []


@pytest.mark.slow
def test_a_host_without_room_is_left_out_and_costs_no_try(notebook: Notebook) -> None:
    notebook.ladder(SHAPES[0], 1)
    place = f"tilebench-fleet-{notebook_id(notebook.tree, gpus.find('cpu'))}"
    (notebook.root / "tmp" / place).touch()  # no folder can be made there
    code, said = notebook.run(MOST_TRIES + 1)
    assert code == ExitCode.INFRASTRUCTURE
    assert said.count("this GPU is left out; it goes on") == MOST_TRIES + 1
    assert f"no GPU is left for {SHAPES[0]}" in one_line(said)


def test_without_the_extra_one_line_says_how_to_add_it(
    four: Notebook, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TILEBENCH_ROOT", str(four.root))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert carry_out(["bench", "--gpu", "cpu", "--gpus", "all"]) is ExitCode.INFRASTRUCTURE
    assert "make bench GPUS=all" in one_line(capsys.readouterr().err)


@pytest.mark.slow
def test_killed_at_random_moments_nothing_is_lost_or_doubled(four: Notebook) -> None:
    """``ROUNDS`` runs, in each of which a driver, a worker, a subprocess or a raylet is killed; then one to the end."""
    kinds: dict[str, Victims] = {
        "worker": Notebook.seats,
        "subprocess": Notebook.stubs,
        "raylet": lambda notebook: [each for each in notebook.processes() if "raylet" in each.name()],
    }
    for round_number in range(int(os.environ.get("ROUNDS", "3"))):
        driver = four.start(2, PACE_S="0.3")
        kind = random.choice(["driver", *kinds])
        time.sleep(random.uniform(2, 16))
        victims = [] if kind == "driver" else kinds[kind](four)
        for victim in victims[:1] if victims else [psutil.Process(driver.pid)] if driver.poll() is None else []:
            victim.kill()
        driver.wait(240)
        assert until(lambda: not four.processes(), 40), (kind, [each.cmdline() for each in four.processes()])
        names = four.names()
        assert len(names) == len(set(names)), (round_number, kind)
        if complete(four, 4):
            for path in four.tree.all_records("cpu"):
                path.unlink()
    code, said = four.run(2)
    assert code == ExitCode.PASSED, said
    assert complete(four, 4)
    assert four.left() == []


@pytest.mark.slow
@pytest.mark.skipif("SIMULATED" not in os.environ, reason="it takes a quarter of an hour: SIMULATED=64 GPUs")
def test_the_driver_of_many_gpus_is_small(notebook: Notebook) -> None:
    """10,000 iterations; each takes a GPU 4 s."""
    for size in range(8, 8 * 201, 8):
        notebook.ladder(f"matmul_f32fp32_{size}x8x8", 50)
    process = notebook.start(int(os.environ["SIMULATED"]), PACE_S="4")
    driver, began, bytes_taken, cpu_s = psutil.Process(process.pid), time.monotonic(), 0, 0.0
    while process.poll() is None:
        with suppress(psutil.NoSuchProcess):
            bytes_taken = max(bytes_taken, driver.memory_info().rss)
            times = driver.cpu_times()
            cpu_s = times.user + times.system
        time.sleep(1)
    wall_s = time.monotonic() - began
    print(f"{wall_s:.0f} s, {cpu_s:.0f} s of a core, {bytes_taken >> 20} MiB")
    assert process.returncode == ExitCode.PASSED, notebook.said
    assert len(set(notebook.names())) == len(notebook.records()) == 10_000
    assert bytes_taken < 1 << 30
    assert cpu_s < 0.2 * wall_s


def test_two_drivers_on_one_notebook_refuse_each_other(four: Notebook) -> None:
    folder = four.tree.folder("cpu")
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, said = four.run(1)
    assert code == ExitCode.INFRASTRUCTURE
    assert "another run is measuring" in one_line(said)
