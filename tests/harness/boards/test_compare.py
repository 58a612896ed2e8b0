"""Two runs told apart: by the interval of a quotient, and never across what cannot be compared."""

import json
import re
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from harness.boards import revisions, tables
from harness.boards.comparison import (
    MARGIN,
    MARGIN_AT_LIMIT,
    Change,
    Comparison,
    Interval,
    compare,
    pair,
    quotient,
    shows,
)
from harness.catalog.tree import Tree
from harness.judge.statistics import estimate
from harness.records.base import Cause, Stage, Status
from harness.records.results import BlockPair, Record
from harness.records.store import append, read
from harness.records.sustained import SustainedRecord
from tests.harness.checkout import ROOT, Checkout, one_line
from tests.harness.envelopes import answer
from tests.harness.examples import ENVIRONMENT, baseline_record, measurement, record, sustained, sustained_record

PLACEMENTS, ROUNDS, NOISE = 8, 6, 0.003
H200 = ROOT / "tuning" / "h200" / "tilelang" / "logs"


def measured(speed: float, dice: np.random.Generator, **changes: Any) -> Record:
    """A record of a kernel ``speed`` times as fast as the library: noisy blocks, and what differs between processes."""
    process = dice.normal(0, process_deviation())
    blocks = tuple(
        BlockPair(placement, 1.0, float(np.exp(dice.normal(0, NOISE) + process)) / speed)
        for placement in range(PLACEMENTS)
        for _ in range(ROUNDS)
    )
    found = estimate(blocks)
    made = measurement(found.low, found.high, ratio=found.ratio, blocks=blocks)
    return record(measurement=made, **changes)


def process_deviation() -> float:
    """One standard deviation of what docs/explanation/measurement.md grants at 95%."""
    return 0.0015 / 1.96


def verdicts(slower: float, pairs: int, seed: int) -> list[Change]:
    dice = np.random.default_rng(seed)
    return [compare(measured(1.02, dice), measured(1.02 * (1 - slower), dice)).verdict for _ in range(pairs)]


def test_figures_at_the_power_limit_are_compared_by_their_own_records(tree: Tree) -> None:
    made = record()
    path = tree.sustained("cpu", made.shape_key, "me")
    append(tree.records("cpu", made.shape_key, "me"), made)
    for ratio, opponent in ((1.02, None), (1.04, None), (1.2, "another")):
        append(path, sustained_record(made, ratio, opponent=opponent, environment=ENVIRONMENT))
    command = ("compare", "previous", "last", "--gpu", "cpu", "--regime", "sustained", "--json")
    done = Checkout(tree.root).run(*command)
    assert done.returncode == 0, done.stderr
    (found,) = answer(done.stdout)
    assert (found["verdict"], found["ratio_a"], found["ratio_b"]) == ("faster", 1.02, 1.04)
    assert found["b"] == read(path, SustainedRecord)[0][1].id


def test_clocks_at_the_power_limit_are_a_difference() -> None:
    made = sustained_record(record(), 1.02)
    slower = sustained_record(record(), 1.02, measurement=sustained(1.02, mhz=1400))
    assert compare(made, slower).notes == ("SM clock 1500 -> 1400 MHz",)


def test_of_40_pairs_of_the_same_kernel_at_most_2_are_called_different() -> None:
    wrong = [verdict for verdict in verdicts(0.0, 40, seed=1) if verdict in (Change.FASTER, Change.SLOWER)]
    assert len(wrong) <= 2


def test_one_percent_slower_is_called_slower_20_times_of_20() -> None:
    assert verdicts(0.01, 20, seed=2) == [Change.SLOWER] * 20


AGREEMENTS = ROOT / "tuning"


def named(pattern: str) -> list[str]:
    return sorted(f"{path.parts[-3]}/{path.stem}" for path in AGREEMENTS.glob(f"*/selftest/{pattern}.json"))


def successive(name: str) -> list[tuple[dict[str, float], dict[str, float]]]:
    """The library against itself on one GPU: pairs of successive runs, as they were measured."""
    gpu, stem = name.split("/")
    repeats = json.loads((AGREEMENTS / gpu / "selftest" / f"{stem}.json").read_text())["agreement"][0]["repeats"]
    return list(zip(repeats[::2], repeats[1::2], strict=False))


@pytest.mark.parametrize(
    ("low", "high", "margin", "verdict"),
    [
        (1.001, 1.002, MARGIN, Change.FASTER),
        (0.998, 0.999, MARGIN, Change.SLOWER),
        (0.996, 1.004, MARGIN, Change.SAME),
        (0.994, 1.004, MARGIN, Change.UNDECIDED),
        (0.996, 1.006, MARGIN, Change.UNDECIDED),
        (0.992, 1.008, MARGIN_AT_LIMIT, Change.SAME),
        (0.992, 1.012, MARGIN_AT_LIMIT, Change.UNDECIDED),
    ],
)
def test_an_interval_has_its_verdict(low: float, high: float, margin: float, verdict: Change) -> None:
    assert Interval(1.0, low, high).verdict(margin) is verdict


@pytest.mark.parametrize(
    ("low", "high", "slower", "faster"),
    [(0.97, 0.98, True, False), (0.97, 0.995, False, False), (1.02, 1.03, False, True)],
)
def test_the_near_end_of_an_interval_shows_a_size(low: float, high: float, slower: bool, faster: bool) -> None:
    assert (shows(low, high, 0.01, slower=True), shows(low, high, 0.01, slower=False)) == (slower, faster)


@pytest.mark.parametrize("problem", named("agree*"))
def test_the_library_against_itself_is_never_called_different(problem: str) -> None:
    def made(run: dict[str, float]) -> Record:
        return record(measurement=measurement(run["ratio_low"], run["ratio_high"], ratio=run["ratio"]))

    found = [compare(made(a), made(b)).verdict for a, b in successive(problem)]
    assert len(found) >= 8
    assert set(found) <= {Change.SAME, Change.UNDECIDED}


def sustained_verdicts(name: str) -> list[Change]:
    def made(run: dict[str, float]) -> SustainedRecord:
        bounds = {name: run[name] for name in ("ratio_low", "ratio_high")}
        measured_so = msgspec.structs.replace(sustained(run["ratio"]), **bounds)
        return sustained_record(record(), run["ratio"], measurement=measured_so)

    return [compare(made(a), made(b)).verdict for a, b in successive(name)]


def test_the_library_against_itself_at_the_power_limit_is_called_different_once_in_20() -> None:
    found = [verdict for name in named("sustained_agree*") for verdict in sustained_verdicts(name)]
    assert len(found) >= 40
    assert sum(verdict not in {Change.SAME, Change.UNDECIDED} for verdict in found) <= len(found) / 20


def test_with_the_short_phases_of_before_it_is_called_different_once_in_15() -> None:
    """Their intervals are a little too narrow: 27 of 30 cover 1."""
    found = sustained_verdicts("h200/short_phases_agreement_matmul_bf16fp32_8192x8192x8192")
    assert len(found) == 15
    assert sum(verdict not in {Change.SAME, Change.UNDECIDED} for verdict in found) == 1


def test_rows_of_an_h200_agree_with_those_of_another_19_of_20_times() -> None:
    """Chips of one model, all iterations, each against each: what differs between chips is in the interval.

    A change of the judge may move a figure too, so one pair of chips is asked alone where one judge measured both.
    """
    found: dict[str, list[Record]] = {}
    for path in sorted(H200.glob("*/*/results.jsonl")):
        for each in read(path, Record)[0]:
            found.setdefault(each.environment.device_uuid, []).append(each)
    compared = [
        [each for each in pair(a, b) if each.verdict != "not compared"] for a, b in combinations(found.values(), 2)
    ]
    large = [rows for rows in compared if len(rows) >= 40]  # some chips had problems of their own
    assert len(large) >= 15
    assert _agreement([each for rows in large for each in rows]) >= 0.98
    alike = [[each for each in rows if not any(note.startswith("judge ") for note in each.notes)] for rows in compared]
    by_one_judge = [rows for rows in alike if len(rows) >= 20]
    assert len(by_one_judge) >= 3
    assert all(_agreement(rows) >= 0.95 for rows in by_one_judge)


def _agreement(rows: list[Comparison]) -> float:
    return sum(each.low <= 1 <= each.high for each in rows if each.low and each.high) / len(rows)


def test_a_baseline_that_the_judge_calls_otherwise_is_another() -> None:
    """As that of int4 was, which made its weights wide in each launch."""
    earlier = msgspec.structs.replace(ENVIRONMENT, judge_sha256="0" * 64)
    a = record(measurement=measurement(33.0, 34.0), environment=earlier)
    b = record(measurement=measurement(1.9, 2.0, baseline_tflops=17.0))
    found = compare(a, b)
    assert found.verdict == Change.INCOMPARABLE
    assert found.why is not None and found.why.startswith("different calls of torch.matmul")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"device": "NVIDIA A100"}, "different GPUs: NVIDIA H200 and NVIDIA A100"),
        ({"torch": "9.9"}, "different libraries: torch.matmul of torch .* and torch.matmul of torch 9.9"),
    ],
)
def test_what_cannot_be_compared_is_not(change: dict[str, str], says: str) -> None:
    environment = msgspec.structs.replace(ENVIRONMENT, device="NVIDIA H200")
    a = record(environment=environment)
    b = record(environment=msgspec.structs.replace(environment, **change))
    found = compare(a, b)
    assert (found.verdict, found.quotient) == (Change.INCOMPARABLE, None)
    assert re.search(says, found.why or "")


def test_timers_problems_and_failures_are_not_compared() -> None:
    a = record()
    assert "different timers" in (compare(a, record(measurement=measurement(1, 1.1, timer="graph"))).why or "")
    assert "different problems" in (compare(a, record(shape_key="matmul_f32fp32_16x16x16")).why or "")
    failed = record(status=Status.FAILED, cause=Cause.CRASH, reason="it crashed", measurement=None)
    assert compare(a, failed).why == "B failed: it crashed"
    assert compare(record(stage=Stage.VERIFY, measurement=None), a).why == "A is verified only"
    (alone,) = pair([a], [])
    assert (alone.verdict, alone.why) == (Change.INCOMPARABLE, "B has no record of it")


def test_a_record_on_both_sides_is_the_same_and_only_counted() -> None:
    wide = record(measurement=measurement(0.5, 2.0, ratio=1.0))
    newer = record(model="other", measurement=measurement(0.5, 2.0, ratio=1.01))
    found = pair([wide, record(model="other")], [wide, newer])
    assert [each.verdict for each in found] == [Change.SAME, Change.UNDECIDED]
    body, _, counts = tables.comparisons(found).rpartition("\n\n")
    assert (body.count(wide.iteration), counts) == (1, "1 undecided, 1 not measured between the two")
    assert tables.comparisons(found[:1]) == "1 not measured between the two"


@pytest.mark.parametrize("low", [0.0, -0.1])
def test_an_interval_that_reaches_0_is_not_compared(low: float) -> None:
    wide, narrow = record(measurement=measurement(low, 9.0, ratio=1.05)), record()
    assert compare(wide, narrow).why == "A is too noisy: its interval reaches 0"
    assert compare(narrow, wide).why == "B is too noisy: its interval reaches 0"
    for a, b in ((wide, narrow), (narrow, wide)):
        assert a.measurement is not None and b.measurement is not None
        found = quotient(a.measurement, b.measurement, same_chip=True)
        assert found.verdict() is Change.UNDECIDED
        assert found.quotient == pytest.approx(1.0)


def test_another_chip_widens_the_interval_and_is_said() -> None:
    a, b = record(), record(environment=msgspec.structs.replace(ENVIRONMENT, device_uuid="GPU-other"))
    near, far = compare(a, record()), compare(a, b)
    assert near.low is not None and far.low is not None
    assert far.low < near.low
    assert "another chip" in far.notes


@pytest.fixture
def history(tmp_path: Path) -> Tree:
    """A repository with two revisions of records."""
    return recorded_in(tmp_path, tmp_path)


def recorded_in(clone: Path, root: Path) -> Tree:
    """A repository in a git clone, with two revisions of records."""
    tree = Tree(root)
    path = tree.records("cpu", "matmul_f32fp32_8x8x8", "me")
    git(clone, "init", "--quiet")
    for low, high in ((1.00, 1.01), (0.90, 0.91)):
        append(path, record(measurement=measurement(low, high)))
        git(clone, "add", "-A")
        git(clone, "-c", "user.name=me", "-c", "user.email=me@here", "commit", "--quiet", "-m", "records")
    return tree


def git(root: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True)


@pytest.mark.parametrize(("a", "b"), [("HEAD~1", "HEAD"), ("HEAD~1", "last"), ("previous", "last")])
def test_revisions_and_the_last_two(history: Tree, a: str, b: str) -> None:
    before, after = (revisions.records(history, "cpu", named, Record)[0] for named in (a, b))
    (found,) = pair(before, after)
    assert found.verdict is Change.SLOWER
    assert found.quotient == pytest.approx(0.905 / 1.005, rel=1e-3)


def test_a_repository_may_be_a_folder_of_its_clone(tmp_path: Path) -> None:
    tree = recorded_in(tmp_path, tmp_path / "kernels/mine")
    assert len(revisions.records(tree, "cpu", "HEAD~1", Record)[0]) == 1
    with revisions.checked_out(tree.root, "HEAD~1") as older:
        assert len(revisions.records(Tree(older), "cpu", str(older / "tuning"), Record)[0]) == 1


def test_a_folder_and_a_file_of_records(history: Tree) -> None:
    path = history.records("cpu", "matmul_f32fp32_8x8x8", "me")
    assert len(revisions.records(history, "cpu", str(path), Record)[0]) == 2
    assert len(revisions.records(history, "cpu", str(history.root / "tuning"), Record)[0]) == 2


def test_of_a_tree_only_its_logs_are_records(history: Tree) -> None:
    append(history.baseline("cpu", "matmul_f32fp32_8x8x8"), baseline_record())
    found, problems = revisions.records(history, "cpu", str(history.root / "tuning"), Record)
    assert (len(found), problems) == (2, [])
    found, problems = revisions.records(history, "cpu", str(history.folder("cpu") / "logs"), Record)
    assert (len(found), problems) == (2, [])


def at(tree: Tree, *words: str) -> subprocess.CompletedProcess[str]:
    return Checkout(tree.root).run(*words)


def test_the_command_and_its_exit_codes(history: Tree) -> None:
    table = at(history, "compare", "HEAD~1", "HEAD", "--gpu", "cpu")
    assert table.returncode == 0, table.stderr
    assert "slower" in table.stdout
    assert table.stdout.endswith("1 slower\n")
    assert at(history, "compare", "HEAD~1", "--gpu", "cpu", "--fail-on", "slower:1%").returncode == 1
    assert at(history, "compare", "HEAD~1", "--gpu", "cpu", "--fail-on", "slower:50%").returncode == 0
    assert at(history, "compare", "HEAD~1", "--gpu", "cpu", "--fail-on", "faster").returncode == 0
    (row,) = answer(at(history, "compare", "HEAD~1", "--gpu", "cpu", "--json").stdout)
    assert row["verdict"] == "slower"
    assert at(history, "compare", "HEAD~1", "--gpu", "cpu", "--format", "github").stdout.startswith("| problem")


def test_a_gate_does_not_pass_where_nothing_was_compared(history: Tree) -> None:
    other = history.root / "other.jsonl"
    append(other, record(measurement=measurement(1.0, 1.1, timer="graph")))
    assert at(history, "compare", str(other), "--gpu", "cpu").returncode == 0
    done = at(history, "compare", str(other), "--gpu", "cpu", "--fail-on", "slower:1%")
    assert done.returncode == 1
    assert one_line(done.stderr) == "tilebench: --fail-on slower:1%: no two records could be compared"


def test_a_side_without_records_is_refused(history: Tree) -> None:
    empty = history.root / "empty.jsonl"
    empty.touch()
    for a, b in ((str(empty), "last"), ("last", str(empty))):
        done = at(history, "compare", a, b, "--gpu", "cpu")
        assert done.returncode == 2
        assert one_line(done.stderr) == f"tilebench: {empty} holds no record of cpu"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("compare", ""), "'' is neither last nor previous, nor a file or folder of records, nor a git revision"),
        (("compare", "nowhere"), "'nowhere' is neither last nor previous, nor a file or folder of records, nor a git"),
        (("compare", "HEAD", "--fail-on", "worse"), "--fail-on 'worse' is not slower:1%"),
        (("compare", "HEAD", "--fail-on", "same:1%"), "is not slower:1% or faster:1%"),
        (("compare", "HEAD", "--margin", "nan"), '"nan" for --margin. Must be < 1.'),
        (("compare", "HEAD", "--margin", "-0.1"), '"-0.1" for --margin. Must be >= 0.'),
        (("compare", "HEAD", "--format", "cuneiform"), "unknown table format 'cuneiform'"),
        (("compare", "HEAD", "--shape", "matmul_f32fp32_9x9x9"), "neither HEAD nor last holds a record of cpu"),
        (("reproduce", "zz"), "no record's id begins with 'zz'"),
        (("reproduce", ""), "no record's id begins with ''"),
        (("export", "--format", "xls"), "--format 'xls' is not csv, json, parquet"),
        (("export", "--format", "parquet"), "Parquet needs a file"),
    ],
)
def test_a_wrong_command_is_one_line(history: Tree, words: tuple[str, ...], says: str) -> None:
    gpu = () if words[0] == "reproduce" else ("--gpu", "cpu")
    done = at(history, *words, *gpu)
    assert done.returncode == 2
    assert says in one_line(done.stderr)
