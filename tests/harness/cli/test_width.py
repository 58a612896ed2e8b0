"""Nothing that a verb prints of the committed records is wider than a terminal of 80 columns."""

import msgspec
import pytest

from harness.catalog.tree import Selection, Tree
from harness.cli.app import app, carry_out
from harness.evidence import report
from harness.extras.foreign import board
from harness.extras.foreign.board import ForeignBoard, ForeignRow
from harness.extras.selftest import agreement
from harness.extras.selftest.agreement import AgreementFinding, Repeat
from harness.extras.tune.record import trials_path
from harness.records.results import Record
from harness.records.store import read
from tests.harness.checkout import ROOT
from tests.harness.examples import ENVIRONMENT

KEYS = ("cpu", "h100", "h200")
TREE = Tree(ROOT)
LADDERS = sorted({(each.shape_key, each.model) for each in TREE.scan("h200", Selection())[0]})
SEARCHES = [ladder for ladder in LADDERS if trials_path(TREE, "h200", *ladder).is_file()]
VERBS = [verb for verb in sorted(app) if not verb.startswith("-")]


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TILEBENCH_ROOT", str(ROOT))


def fits(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command prints, after each of its lines is found narrow enough; a leaderboard complains of nothing."""
    carry_out(words)
    printed, complaints = capsys.readouterr()
    assert [line for line in printed.splitlines() if len(line) > 80] == [], words
    assert words[0] != "leaderboard" or complaints == ""
    return printed


@pytest.mark.parametrize("key", KEYS)
def test_boards(capsys: pytest.CaptureFixture[str], key: str) -> None:
    problems = {each.shape_key for each in TREE.scan(key, Selection())[0]}
    leaders = fits(capsys, "leaderboard", "--gpu", key)
    ladders = fits(capsys, "leaderboard", "--gpu", key, "--all")
    assert sum(f"{problem} on {key}\n" in ladders for problem in problems) == len(problems)
    shown = {problem for problem in problems if any(line.startswith(f"{problem} ") for line in leaders.splitlines())}
    assert all(problem.startswith("copy_") for problem in problems - shown)


def test_states(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(LADDERS) > 10
    for shape, model in LADDERS[::8]:
        assert fits(capsys, "next", "--gpu", "h200", "--shape", shape, "--model", model)


def test_searches(capsys: pytest.CaptureFixture[str]) -> None:
    assert SEARCHES
    for shape, model in SEARCHES:
        ladder = ("searches", "--gpu", "h200", "--shape", shape, "--model", model)
        assert fits(capsys, *ladder, "--picks")
        assert any(fits(capsys, *ladder, "--engine", engine) for engine in ("tilebench", "tilelang", "exhaustive"))


def test_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [record for path in TREE.all_records("h200") for record in read(path, Record)[0] if record.build]
    assert len(records) > 100
    printed = report.tables([report.row(record) for record in records])
    assert max(map(len, printed.splitlines())) <= 80


def test_foreign_boards() -> None:
    row = ForeignRow(
        problem=LADDERS[0][0],
        script="iter007_a_script_with_a_long_name",
        model="somebodys-model",
        basis="judged",
        status="passed",
        rank=1,
        time_ms=0.123456,
        tflops=712.3,
        ratio=1.0123,
        ratio_low=1.01,
        ratio_high=1.02,
        stable=False,
        claimed_ms=0.1,
        claims=3,
        quotient=1.23,
        verdict=True,
        reason="it imports a module that is not there",
        ended="exit code 1",
    )
    environment = msgspec.structs.replace(ENVIRONMENT, device="A processor with a name of many words")
    made = ForeignBoard(row.problem, "h200", environment, "torch.matmul", (row,), (row,))
    printed = board.table(made)
    assert max(map(len, printed.splitlines())) <= 80
    assert "[1.0100, 1.0200]" in printed and "ours/claimed" in printed


def test_agreement() -> None:
    found = AgreementFinding(max(LADDERS)[0], "events", (Repeat(1.0, 0.99, 1.01, 3.0, 1.0, 1.0),) * 2, 2, *(0.001,) * 5)
    assert max(map(len, agreement.table([found]).splitlines())) <= 80


@pytest.mark.parametrize(
    "words",
    [
        ("compare", "last", "--gpu", "h200"),
        ("compare", "previous", "--gpu", "h200"),
        ("publish", "--check", "--gpu", "h200"),
        ("doctor",),
        ("check", "--gpu", "h200"),
        ("--help",),
        *((verb, "--help") for verb in VERBS),
    ],
    ids=" ".join,
)
def test_other_verbs(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    assert fits(capsys, *words)
