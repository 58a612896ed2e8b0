"""The real command line on a small tree: what a user types, and gets."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.judge.facts.device_rules import CPU_RULES
from harness.machine.nvml import devices
from harness.records.base import Confinement
from harness.records.builds import BuildRecord
from harness.records.store import read
from harness.runs import watch
from tests.harness.checkout import BUDGET, MODEL, NEITHER_CHILD_NOR_TORCH, SCALAR, SHAPE, Checkout, one_line, until
from tests.harness.envelopes import envelope
from tests.lanes import few

OTHER_SHAPE = "linear_f32fp32_16x32x64"
LADDER = ["iter000_torch_matmul", "iter001_tiles_of_16", "iter002_tiles_of_32"]
# A row's fields and their types, where the iteration was measured.
FIELDS: dict[str, type | tuple[type, ...]] = {
    "gpu": str,
    "problem": str,
    "iteration": str,
    "model": str,
    "status": str,
    "rank": int,
    "time_ms": float,
    "tflops": float,
    "ratio": float,
    "ratio_low": float,
    "ratio_high": float,
    "timer": str,
    "rounds": int,
    "max_abs_err": float,
    "rel_err": float,
    "stale": list,
    "decision": str,
    "idea": str,
    "config": str,
    "source_sha256": str,
    "environment": dict,
}
HANGING = '''"""It never finishes {what}."""

PARENT = "iter000_torch_matmul"
CONFIG = dict(none=0)


def build(problem):
    {body}
'''


def by_name(said: str) -> str:
    """What is said, with the program by its name; in a checkout it is said with its path."""
    return said.replace(str(Path(sys.executable).with_name("tilebench")), "tilebench")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """Two problems and two models, benched once; tests that share it only read."""
    made = Checkout.create(tmp_path_factory.mktemp("e2e") / "checkout").kept_warm()
    made.ladder((16, 32))
    made.ladder((16,), OTHER_SHAPE)
    made.ladder((8,), model="another")
    done = made.run("bench", "--gpu", "cpu", *BUDGET)
    assert done.returncode == 0, done.stderr
    made.printed = done.stdout  # type: ignore[attr-defined]
    made.told = done.stderr  # type: ignore[attr-defined]
    yield made
    made.end()


@pytest.fixture
def copied(measured: Checkout, tmp_path: Any) -> Iterator[Checkout]:
    """The measured tree again, to be changed."""
    made = measured.copied(tmp_path / "checkout")
    yield made
    made.end()


# On this clock a record takes a minute.
MINUTE_A_RECORD = """
from harness.catalog.tree import Tree
from harness.runs.within import Deadline
within = Deadline.within
def clock():
    return 60.0 * sum(path.read_bytes().count(b"\\n") for path in Tree.here().all_records("cpu"))
Deadline.within = lambda minutes: within(minutes, clock)
"""


# What a run gives.


def test_bench_prints_the_leader_of_each_problem(measured: Checkout) -> None:
    printed: str = measured.printed  # type: ignore[attr-defined]
    for shape in (SHAPE, OTHER_SHAPE):
        assert sum(line.startswith(f"{shape} ") for line in printed.splitlines()) == 1
    assert measured.run("leaderboard").stdout == printed


def test_all_prints_a_ladder_a_problem(measured: Checkout) -> None:
    printed = measured.run("leaderboard", "--all").stdout
    for shape in (SHAPE, OTHER_SHAPE):
        assert printed.count(f"{shape} on cpu\n") == 1
    assert printed.count("iter000_torch_matmul") == 3
    assert "95% interval" in printed
    assert "failed" not in printed
    assert f"{SHAPE} on cpu\n" in measured.run("leaderboard", "--shape", SHAPE).stdout


def test_bench_says_what_it_waits_for_and_what_changed(measured: Checkout) -> None:
    first, *others = measured.told.splitlines()  # type: ignore[attr-defined]
    assert first.startswith("importing torch and TileLang")
    leaders = [row for row in measured.json("leaderboard") if row["rank"] == 1]
    (summary,) = (line for line in others if line.startswith(f"7 passed; {len(leaders)} of them lead: "))
    assert f"{leaders[0]['iteration']} of {leaders[0]['problem']}" in summary


def test_bench_leaves_the_files_that_the_contract_names(measured: Checkout) -> None:
    base = measured.tree.folder("cpu")
    for name in LADDER:
        assert os.access(base / f"cmd/{SHAPE}/{MODEL}/build_{name[:7]}.sh", os.X_OK)
        assert os.access(base / f"cmd/{SHAPE}/{MODEL}/run_{name[:7]}.sh", os.X_OK)
        timing = (base / f"perf/{SHAPE}/{MODEL}/timing_{name[:7]}.txt").read_text()
        assert timing.startswith("VERIFY: PASS")
        assert "\nTFLOPS: " in timing
        assert " time_ms: " in timing
    assert (base / f"baseline/{SHAPE}/results.jsonl").read_text().count("\n") == 1


def test_a_row_has_all_fields(measured: Checkout) -> None:
    rows = measured.json("leaderboard", "--gpu", "cpu")
    assert len(rows) == 7
    for row in rows:
        for field, kind in FIELDS.items():
            assert isinstance(row[field], kind), field
        assert row["status"] == "passed"
        assert row["stale"] == []
        assert row["decision"] in ("KEEP", "DISCARD")
        assert row["ratio_low"] <= row["ratio"] <= row["ratio_high"]
        assert row["rounds"] >= 3 * CPU_RULES.rounds_per_placement  # of three placements: see PATIENT


def test_the_ranks_are_of_the_ratios(measured: Checkout) -> None:
    rows = [row for row in measured.json("leaderboard") if row["problem"] == SHAPE]
    assert rows[0]["iteration"] == "iter000_torch_matmul"
    assert [row["ratio"] for row in rows] == sorted((row["ratio"] for row in rows), reverse=True)


def test_nothing_is_left_behind(measured: Checkout) -> None:
    assert measured.processes() == []
    assert measured.leftovers() == []


def test_a_second_run_measures_nothing_and_starts_no_process(measured: Checkout) -> None:
    before = measured.tree.records("cpu", SHAPE, MODEL).read_bytes()
    done = measured.run("bench", *BUDGET, settings=NEITHER_CHILD_NOR_TORCH)
    assert done.returncode == 0
    assert done.stderr.count("(recorded before)") == 7
    assert done.stdout == measured.printed  # type: ignore[attr-defined]
    assert measured.tree.records("cpu", SHAPE, MODEL).read_bytes() == before


def test_json_is_all_that_stdout_holds(measured: Checkout) -> None:
    for verb in ("bench", "verify", "check", "leaderboard"):
        done = measured.run(verb, "--json")
        assert done.returncode == 0, done.stderr
        assert envelope(done.stdout)["verb"] == verb


@pytest.mark.parametrize(
    ("arguments", "iterations"),
    [
        (["--shape", OTHER_SHAPE], [(MODEL, "iter000"), (MODEL, "iter001")]),
        (["--model", "another"], [("another", "iter000"), ("another", "iter001")]),
        (["--iter", "iter002"], [(MODEL, "iter002")]),
        (["--iter", "1", "--shape", SHAPE], [("another", "iter001"), (MODEL, "iter001")]),
    ],
)
def test_a_run_is_narrowed(measured: Checkout, arguments: list[str], iterations: list[tuple[str, str]]) -> None:
    for verb in ("bench", "check"):
        records = measured.json(verb, *arguments)["records"]
        assert sorted((record["model"], record["iteration"][:7]) for record in records) == iterations
    rows = measured.json("leaderboard", *arguments)
    assert sorted((row["model"], row["iteration"][:7]) for row in rows) == iterations


# What is measured again.


def test_a_changed_source_is_measured_again_and_nothing_else(copied: Checkout) -> None:
    before = copied.records()
    copied.write(LADDER[1], SCALAR.format(block=8))
    (row,) = copied.json("leaderboard", "--iter", "1", "--shape", SHAPE, "--model", MODEL)
    assert row["stale"] == ["source"]
    done = copied.run("bench", *BUDGET)
    assert done.returncode == 0
    assert done.stderr.count("(recorded before)") == 6
    after = copied.records()
    assert after[:-1] == before
    assert after[-1].iteration == LADDER[1]
    (row,) = copied.json("leaderboard", "--iter", "1", "--shape", SHAPE, "--model", MODEL)
    assert row["stale"] == []


def test_verify_and_then_bench_of_a_new_iteration(copied: Checkout) -> None:
    copied.write("iter003_new", SCALAR.format(block=8))
    (record,) = copied.json("verify", "--iter", "3")["records"]
    assert (record["status"], record["stage"], record["measurement"]) == ("passed", "verify", None)
    assert record["confinement"] in list(Confinement)
    *names, corners, overwritten, chained = (trial["name"] for trial in record["verification"])
    assert (*names, overwritten, chained) == ("random", "exact", "refreshed", "overwritten", "chained")
    assert corners.startswith("corners (")
    (record,) = copied.json("bench", "--iter", "3", *BUDGET)["records"]
    assert record["stage"] == "bench"
    assert record["measurement"]
    assert [each.stage.value for each in copied.records()[-2:]] == ["verify", "bench"]


def test_again_measures_what_is_recorded(copied: Checkout) -> None:
    done = copied.run("bench", "--again", "--iter", "2", *BUDGET)
    assert "(recorded before)" not in done.stderr
    assert len(copied.records()) == 4


@pytest.mark.slow
def test_within_so_many_minutes_the_leaders_come_first_and_the_rest_is_said_to_be_left(copied: Checkout) -> None:
    leaders = {(row["problem"], row["iteration"]) for row in copied.json("leaderboard") if row["rank"] == 1}
    before = {
        each.id
        for shape in (SHAPE, OTHER_SHAPE)
        for model in (MODEL, "another")
        for each in copied.records(shape, model)
    }
    limit = ("bench", "--gpu", "cpu", "--again", "--opponents", "--within", "2", *BUDGET)
    done = copied.run(*limit, settings=MINUTE_A_RECORD)
    assert done.returncode == 0, done.stderr
    after = [
        each for shape in (SHAPE, OTHER_SHAPE) for model in (MODEL, "another") for each in copied.records(shape, model)
    ]
    fresh = {(each.shape_key, each.iteration) for each in after if each.id not in before}
    assert len(fresh) == len(after) - len(before) == 2
    assert fresh <= leaders
    assert "skipped   opponents: the time is over" in done.stderr
    last = by_name(done.stdout.splitlines()[-1])
    assert last == f"rows measured: 2; left: 5; to go on: tilebench {' '.join(limit)}"


def test_records_that_cannot_be_read_are_named_and_the_rest_is_shown(copied: Checkout) -> None:
    path = copied.tree.records("cpu", SHAPE, MODEL)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"garbled\n" + b"".join(lines[:-1]) + lines[-1][:100])
    done = copied.run("leaderboard", "--shape", SHAPE, "--model", MODEL)
    assert done.returncode == 0
    assert f"{path}:1: not a record, ignored" in done.stderr
    assert f"{path}:4: torn last line, ignored" in done.stderr
    assert "not measured" in done.stdout

    done = copied.run("bench", "--shape", SHAPE, "--model", MODEL, *BUDGET)
    assert done.returncode == 0
    assert done.stderr.count("(recorded before)") == 2
    assert path.read_bytes().count(b"\n") == 5  # the torn line stays, alone


# Exit codes, and one line for each fault.


def test_a_rejected_iteration_is_exit_code_1(copied: Checkout) -> None:
    copied.write("iter003_bad", "def build(): pass")
    for verb in ("check", "bench"):
        done = copied.run(verb, "--iter", "3")
        assert done.returncode == 1
        assert "contract: no docstring; " in done.stderr
        assert ", at iter003_bad.py:1: def build(): pass" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["bench", "--gpu", "h300"], "unknown GPU key 'h300'; known: auto, h200"),
        (["bench", "--shape", "matmul_8x8x8"], "shape key 'matmul_8x8x8' does not have the form"),
        (["bench", "--shape", "matmul_f32fp32_9x9x9"], "no iteration under tuning/cpu/ matches --shape"),
        (["leaderboard", "--model", "nobody"], "no iteration under tuning/cpu/ matches --model nobody"),
        (
            ["leaderboard", "--gpu", "b200"],
            "no iteration under tuning/b200/ yet; `tilebench new --gpu b200 --shape KEY --model NAME` begins",
        ),
        (["verify", "--iter", "last"], "iteration 'last' is neither a number"),
        (["bench", "--budget", "soon"], "budget"),
        (["bench", "--budget", "-1"], "budget"),
        (["bench", "--budget", "nan"], "budget"),
        (["polish"], "polish"),
        (["bench", "--colour", "red"], "--colour"),
        (["leaderboard", "--format", "no-such-format"], "no-such-format"),
    ],
)  # fmt: skip
def test_a_wrong_command_is_exit_code_2_in_one_line(measured: Checkout, arguments: list[str], says: str) -> None:
    done = measured.run(*arguments)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert says in by_name(one_line(done.stderr))
    assert len(done.stderr.strip().splitlines()) <= 2  # which GPU was taken, and the fault


def test_an_empty_tree_is_said_in_one_line(checkout: Checkout) -> None:
    done = checkout.run("leaderboard")
    assert done.returncode == 2
    assert "no iteration under tuning/cpu/" in one_line(done.stderr)


@pytest.mark.skipif(bool(devices()), reason="this machine has a GPU")
def test_no_gpu_is_exit_code_3_in_one_line(measured: Checkout) -> None:
    done = measured.run("bench", "--gpu", "h200")
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.strip() == (
        "tilebench: GPU key 'h200' was asked for, but this machine has no NVIDIA GPU; the key 'cpu' needs none"
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_tree_that_cannot_be_written_is_exit_code_3(copied: Checkout) -> None:
    folder = copied.tree.folder("cpu")
    folder.chmod(0o555)
    try:
        done = copied.run("bench", "--again", "--iter", "2")
    finally:
        folder.chmod(0o755)
    assert done.returncode == 3
    assert "cannot be written" in one_line(done.stderr)


def test_a_records_file_that_is_a_folder_is_exit_code_3(checkout: Checkout) -> None:
    checkout.ladder(())
    checkout.tree.records("cpu", SHAPE, MODEL).mkdir(parents=True)
    for verb in ("leaderboard", "bench"):
        done = checkout.run(verb)
        assert done.returncode == 3
        assert "results.jsonl: the records cannot be read" in one_line(done.stderr)


def test_a_closed_pipe_is_no_traceback(measured: Checkout) -> None:
    command = subprocess.list2cmdline(measured.command("leaderboard")) + " | true"
    done = subprocess.run(
        command, shell=True, cwd=measured.root, env=measured.environment(), capture_output=True, text=True, check=False
    )
    assert done.stderr == ""


# Interruptions.


def slow_ladder(checkout: Checkout) -> None:
    checkout.ladder((4, 8, 16, 32))


@pytest.mark.slow
def test_killed_in_the_middle_it_leaves_no_process_and_the_next_run_continues(checkout: Checkout) -> None:
    slow_ladder(checkout)
    path = checkout.tree.records("cpu", SHAPE, MODEL)
    with checkout.started("bench", *BUDGET) as process:
        assert until(lambda: path.exists() and path.read_bytes().count(b"\n") >= 2)
        process.kill()
        process.wait()
    assert until(lambda: checkout.processes() == []), checkout.processes()
    before = path.read_bytes()
    assert 2 <= before.count(b"\n") < 5

    done = checkout.run("bench", *BUDGET)
    assert done.returncode == 0, done.stderr
    assert path.read_bytes().startswith(before)
    names = [record.iteration for record in checkout.records()]
    assert len(names) == len(set(names)) == 5
    assert done.stderr.count("(recorded before)") == before.count(b"\n")


@pytest.mark.parametrize(
    ("what", "body"),
    few(
        [
            ("building", "while True: pass"),
            ("its launch", "return lambda *tensors: [None for _ in iter(int, 1)]"),
        ],
        ("building", "while True: pass"),
    ),
)
def test_killed_while_an_iteration_hangs_it_leaves_no_process(checkout: Checkout, what: str, body: str) -> None:
    checkout.ladder((16,))
    checkout.write("iter002_hangs", HANGING.format(what=what, body=body))

    def hangs() -> bool:
        """The contestant is there, and uses a core."""
        return any(map(busy, checkout.processes()))

    def busy(process: psutil.Process) -> bool:
        used_s = 0.0
        with suppress(psutil.NoSuchProcess):  # a compiler is gone before it can be asked
            used_s = process.cpu_times().user
        return used_s > 3

    with checkout.started("bench", "--iter", "2", *BUDGET) as process:
        assert until(lambda: len(checkout.processes()) >= 3)
        assert until(hangs)
        process.kill()
        process.wait()
    assert until(lambda: checkout.processes() == []), checkout.processes()


@pytest.mark.parametrize("number", few([signal.SIGINT, signal.SIGTERM], signal.SIGINT))
def test_interrupted_it_says_so_in_one_line_and_cleans_up(checkout: Checkout, number: signal.Signals) -> None:
    slow_ladder(checkout)
    path = checkout.tree.records("cpu", SHAPE, MODEL)
    with checkout.started("bench", "--budget", "1") as process:
        assert until(lambda: path.exists() and path.read_bytes().count(b"\n") >= 1)
        os.killpg(process.pid, number)  # as a terminal does
        process.wait()
    assert process.returncode == 3
    assert one_line(checkout.said) == "tilebench: stopped; what is recorded stays, and the same command continues"
    assert until(lambda: checkout.processes() == []), checkout.processes()
    assert checkout.leftovers() == []
    assert {record.status for record in checkout.records()} == {"passed"}


IMPORTING = """import pathlib, time
pathlib.Path({begun!r}).touch()
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("harness/cli/__init__.py", "tilebench: stopped before it began"),
        (
            "harness/judge/child/preload.py",
            "tilebench: stopped; what is recorded stays, and the same command continues",
        ),
    ],
)
def test_interrupted_while_it_imports_it_waits_for_no_import(checkout: Checkout, module: str, says: str) -> None:
    checkout.ladder(())
    begun = checkout.root / "begun.txt"
    (checkout.root / module).write_text(IMPORTING.format(begun=str(begun)))
    with checkout.started("bench", *BUDGET) as process:
        assert until(begun.exists)
        os.killpg(process.pid, signal.SIGINT)
        process.wait(300)
    assert process.returncode == 3
    assert one_line(checkout.said) == says
    assert until(lambda: checkout.processes() == []), checkout.processes()
    assert checkout.leftovers() == []


def test_a_draft_is_judged_at_each_save_until_it_is_interrupted(checkout: Checkout) -> None:
    checkout.ladder(())
    path = checkout.write("iter001_draft", SCALAR.format(block=16))
    good = path.read_text()
    typo = good.replace("**CONFIG", "**CONFGI")
    sources = (good, typo, f"{typo}# once more\n", good.replace("=16", "=8"), good)

    def judged(times: int) -> bool:
        return checkout.said.count("iter001_draft: ") == times

    with checkout.started("watch", "--shape", SHAPE, "--model", MODEL, *BUDGET) as process:
        for number, source in enumerate(sources, start=1):
            path.write_text(source)
            assert until(partial(judged, number)), checkout.said
        os.killpg(process.pid, signal.SIGINT)
        process.wait(300)
    assert process.returncode == 0
    assert (checkout.root / "stdout.txt").read_text() == "5 sources of iter001_draft judged\n"
    assert until(lambda: checkout.processes() == []), checkout.processes()
    assert checkout.leftovers() == []
    first, broken, _, other, again = (line for line in checkout.said.splitlines() if "iter001_draft: " in line)
    assert "ratio " in first
    assert "iter000_torch_matmul is not measured" in first
    assert "NameError: name 'CONFGI' is not defined, at iter001_draft.py:10: return scalar_gemm" in broken
    assert "attempt" not in broken
    told = [line for line in checkout.said.splitlines() if line.startswith(("early ", "passed ", "failed "))]
    kinds = [line.partition(" ")[0] for line in told]
    assert kinds == ["early", "passed", "failed", "failed", "early", "passed", "passed"]  # the last is known
    assert all("iter001_draft, ratio " in line for line in told if line.startswith("early"))
    assert "ratio " in other
    assert "ratio " in again

    recorded = checkout.records()
    assert [(each.iteration, each.status, each.config) for each in recorded] == [
        ("iter001_draft", "passed", f"block_M={block}, block_N={block}, block_K={block}") for block in (16, 8)
    ]
    assert [watch.kept_source(checkout.tree, each).read_text() for each in recorded] == [good, sources[3]]
    assert {each.attempt for each in read(checkout.tree.builds("cpu", SHAPE, MODEL), BuildRecord)[0]} == {None}

    refused = checkout.run("watch", "--shape", SHAPE, "--model", MODEL)
    assert refused.returncode == 2
    said = by_name(one_line(refused.stderr))
    assert "iter001_draft has a record, and is never edited; begin a copy with `tilebench" in said


@pytest.mark.slow
def test_of_two_runs_at_once_the_second_is_refused_in_one_line(checkout: Checkout) -> None:
    checkout.ladder((4, 8))
    with checkout.started("bench", "--budget", "1") as process:
        assert until(lambda: len(checkout.processes()) >= 2)
        second = checkout.run("bench", *BUDGET)
        assert process.poll() is None
        reading = checkout.run("leaderboard")
        checking = checkout.run("check")
        process.wait()
    assert second.returncode == 3
    assert one_line(second.stderr) == (
        "tilebench: another run is measuring under tuning/cpu/tilelang; wait until it ends"
    )
    assert (reading.returncode, checking.returncode, process.returncode) == (0, 0, 0), checkout.said
    names = [record.iteration for record in checkout.records()]
    assert len(names) == len(set(names)) == 3


@pytest.mark.parametrize(
    ("line", "says"),
    [
        pytest.param("torch.matmul(2 * a, b,", "the baseline torch.matmul is wrong, so there is no ratio", id="wrong"),
        pytest.param("torch.matmul(a, a.none,", "the baseline's process: AttributeError: 'Tensor' object", id="broken"),
    ],
)
def test_beside_a_wrong_or_broken_baseline_there_is_no_ratio(copied: Checkout, line: str, says: str) -> None:
    baseline = copied.root / "baselines" / "torch_matmul.py"
    if baseline.parent.is_symlink():
        source = baseline.parent.resolve()
        baseline.parent.unlink()
        shutil.copytree(source, baseline.parent)
    baseline.write_text(baseline.read_text().replace("torch.matmul(a, b,", line))
    done = copied.run("bench", "--gpu", "cpu", "--shape", SHAPE, "--model", MODEL, "--iter", "1", *BUDGET)
    assert done.returncode == 3, done.stderr
    assert says in done.stderr
