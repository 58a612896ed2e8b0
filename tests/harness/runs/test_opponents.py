"""Opponents beside a ladder on a CPU: measured, wrong, crashing, hanging and missing; and the leader against one."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from harness.boards.pairs import line
from harness.catalog import opponents
from harness.machine.hints import pip_install
from harness.records.base import Cause, RowKind, Status
from harness.records.pairs import PairRecord
from harness.records.results import Record
from harness.records.store import read
from tests.harness.checkout import BUDGET, MODEL, ROOT, SHAPE, Checkout
from tests.harness.envelopes import answer

FILE = """
import os, subprocess, time
from harness.catalog.opponents import Opponent

def opponent(name, build, **said):
    return Opponent(name=name, what=f"It is {name}.", build=build, operators={"matmul": ("f32",)},
                    architectures=("c",), licence="MIT", source="https://example.org", **said)

def crashing(problem):
    os.abort()

def hanging(problem):
    time.sleep(600)

def wrong(problem):
    return lambda a, b, out: out.zero_()

def transposed(problem):
    return lambda a, b, out: out.copy_((a @ b).t())

def built_for_another(problem):
    raise ImportError("libcudart.so.12: cannot open shared object file")

def without_a_compiler(problem):
    return lambda a, b, out: subprocess.run(["no-such-compiler", "--version"], check=True)

FAILING = crashing, hanging, wrong, transposed, built_for_another, without_a_compiler
OPPONENTS = tuple(opponent(each.__name__, each) for each in FAILING)
OPPONENTS += (opponent("absent", wrong, requires=("no-such-package==1.0",), extra="opponents-absent"),)
"""
# A hang is noticed soon, and a test may name the strongest opponent.
SETTINGS = """
from dataclasses import replace
from harness.boards.board import Board
from harness.cli import options
settings = options.MeasureOptions.settings
options.MeasureOptions.settings = lambda self, gpu: replace(settings(self, gpu), opponent_deadline_s=25.0)
{more}
"""
BEST = "Board.best_opponent = property(lambda board: next(r for r in board.opponents if r.iteration == {name!r}))"
REASONS = {
    "crashing": (Cause.CRASH, "the opponent crashing was killed by SIGABRT"),
    "hanging": (Cause.TIMEOUT, "the opponent hanging did not answer within 25 s"),
    "wrong": (Cause.WRONG_RESULT, "random trial: "),
    "transposed": (Cause.WRONG_RESULT, "random trial: "),
    "built_for_another": (Cause.COMPILE, "ImportError: libcudart.so.12: cannot open shared object file"),
    "without_a_compiler": (Cause.COMPILE, "FileNotFoundError: [Errno 2] No such file or directory: 'no-such-compiler'"),
}


@pytest.fixture(scope="module")
def benched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """A ladder of one, and opponents of all kinds; tests that share it only read."""
    made = Checkout.create(tmp_path_factory.mktemp("opponents") / "checkout").kept_warm()
    made.ladder((32,))
    folder = made.root / opponents.FOLDER
    folder.mkdir()
    shutil.copy(ROOT / opponents.FOLDER / "tilelang_stock.py", folder)
    (folder / "failing.py").write_text(FILE)
    done = made.run("bench", "--gpu", "cpu", "--opponents", *BUDGET, settings=SETTINGS.format(more=""))
    assert done.returncode == 0, done.stderr
    made.printed, made.told = done.stdout, done.stderr  # type: ignore[attr-defined]
    yield made
    made.end()


def outcomes(checkout: Checkout) -> dict[str, Record]:
    records, problems = read(checkout.tree.opponents("cpu", SHAPE), Record)
    assert problems == []
    return {record.iteration: record for record in records}


def pairs(checkout: Checkout) -> list[PairRecord]:
    records, problems = read(checkout.tree.pairs("cpu", SHAPE), PairRecord)
    assert problems == []
    return records


def test_one_that_works_is_verified_and_timed_beside_the_library(benched: Checkout) -> None:
    record = outcomes(benched)["tilelang_stock_cpu"]
    assert (record.status, record.kind, record.model) == (Status.PASSED, RowKind.OPPONENT, "opponents")
    assert {trial.name for trial in record.verification} >= {"random", "exact", "refreshed", "timed"}
    assert record.measurement is not None
    assert record.measurement.baseline == "torch.matmul"
    assert record.measurement.ratio < 1
    assert record.build is not None
    assert record.build.seconds > 0


@pytest.mark.parametrize("name", REASONS)
def test_one_that_fails_has_a_row_that_says_why(benched: Checkout, name: str) -> None:
    cause, reason = REASONS[name]
    record = outcomes(benched)[name]
    assert record.cause is cause
    assert record.reason is not None
    assert record.reason.startswith(reason)
    assert f"opponents {name}: " in benched.told  # type: ignore[attr-defined]


def test_a_missing_one_is_a_line_and_no_error(benched: Checkout) -> None:
    told: str = benched.told  # type: ignore[attr-defined]
    pin = "no-such-package==1.0"
    assert f"skipped   opponent absent: {pin} is not installed; {pip_install(pin)}" in told
    assert "absent" not in outcomes(benched)


def test_the_leader_meets_the_strongest(benched: Checkout) -> None:
    (pair,) = pairs(benched)
    assert (pair.status, pair.opponent, pair.model) == (Status.PASSED, "tilelang_stock_cpu", MODEL)
    assert pair.iteration == "iter000_torch_matmul"
    found = pair.measurement
    assert found is not None
    assert found.baseline == "tilelang_stock_cpu"
    assert found.ratio > 1
    assert found.baseline_ms > found.time_ms
    own = outcomes(benched)["tilelang_stock_cpu"].measurement
    assert own is not None
    assert found.ratio * own.ratio == pytest.approx(1, rel=0.9)


def test_the_board_shows_them_below_and_ranks_none(benched: Checkout) -> None:
    rows: list[dict[str, Any]] = benched.json("leaderboard", "--gpu", "cpu")
    kinds = {row["iteration"]: row["kind"] for row in rows}
    assert kinds == dict.fromkeys(("iter000_torch_matmul", "iter001_tiles_of_32"), "iteration") | dict.fromkeys(
        ("tilelang_stock_cpu", *REASONS), "opponent"
    )
    for row in rows:
        if row["kind"] == "opponent":
            assert (row["rank"], row["decision"]) == (None, None)
    leader = rows[0]
    (pair,) = pairs(benched)
    assert pair.measurement is not None
    assert (leader["best_opponent"], leader["vs_best"]) == ("tilelang_stock_cpu", pair.measurement.ratio)
    assert leader["vs_best_low"] < leader["vs_best"] < leader["vs_best_high"]
    assert "vs best" in benched.printed  # type: ignore[attr-defined]
    exported = answer_rows(benched)
    assert {row["iteration"]: row["kind"] for row in exported} == kinds
    assert [row["best_opponent"] for row in exported if row["vs_best"]] == ["tilelang_stock_cpu"]


def answer_rows(checkout: Checkout) -> list[dict[str, Any]]:
    import json

    rows: list[dict[str, Any]] = json.loads(checkout.run("export", "--gpu", "cpu", "--format", "json").stdout)
    return rows


def test_nothing_is_measured_twice_and_a_changed_file_is(benched: Checkout, tmp_path: Any) -> None:
    copy = benched.copied(tmp_path / "checkout")
    before = outcomes(copy), pairs(copy)
    (copy.root / opponents.FOLDER / "failing.py").unlink()
    done = copy.run("bench", "--gpu", "cpu", "--opponents", *BUDGET)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("(recorded before)") == 4
    assert (outcomes(copy), pairs(copy)) == before
    stock = copy.root / opponents.FOLDER / "tilelang_stock.py"
    stock.write_text(stock.read_text() + "# changed\n")
    rows = {row["iteration"]: row for row in copy.json("leaderboard", "--gpu", "cpu")}
    assert rows["tilelang_stock_cpu"]["stale"] == ["source"]
    assert copy.run("bench", "--gpu", "cpu", "--iter", "1", *BUDGET).stderr.count("opponents") == 0
    copy.end()


@pytest.mark.slow
def test_against_a_wrong_opponent_there_is_no_ratio(benched: Checkout, tmp_path: Any) -> None:
    copy = benched.copied(tmp_path / "checkout")
    done = copy.run(
        "bench", "--gpu", "cpu", "--opponents", *BUDGET, settings=SETTINGS.format(more=BEST.format(name="wrong"))
    )
    assert done.returncode == 0, done.stderr
    pair = pairs(copy)[-1]
    assert (pair.opponent, pair.cause, pair.measurement) == ("wrong", Cause.WRONG_RESULT, None)
    assert line(pair) in done.stderr
    assert "opponent wrong is wrong, so there is no ratio: random trial" in line(pair)
    rows = answer(copy.run("leaderboard", "--gpu", "cpu", "--json").stdout)
    assert "wrong" not in {row["best_opponent"] for row in rows}
    copy.end()


def test_the_name_of_their_folder_is_no_models(benched: Checkout) -> None:
    done = benched.run("new", "--gpu", "cpu", "--shape", SHAPE, "--model", "opponents")
    assert done.returncode == 2
    assert "model 'opponents' is where the records of opponents lie" in done.stderr
