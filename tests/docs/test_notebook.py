"""The notebook runs, and what it makes of an export is the leaderboard."""

import json
import math
from typing import Any

import pytest

from docs.generator import boards as generator
from harness.boards import leaderboard
from harness.boards.board import Board
from harness.catalog.tree import Selection, Tree
from tests.harness.checkout import ROOT

NOTEBOOK = ROOT / "docs" / "how-to" / "board-from-export.ipynb"


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    """The variables that its cells leave, run in order."""
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setenv("PYTHONPATH", str(ROOT))
        for number, cell in enumerate(json.loads(NOTEBOOK.read_text())["cells"]):
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), f"{NOTEBOOK.name}:{number}", "exec"), names)
    return names


@pytest.fixture(scope="module")
def newest() -> dict[str, Board]:
    found, _ = leaderboard.boards(Tree(ROOT), "h200", Selection())
    return {board.problem: board for board in reversed(found)}


def test_its_ladders_are_the_boards(made: dict[str, Any], newest: dict[str, Board]) -> None:
    fields = ("iteration", "model", "rank", "ratio", "decision", "time_ms", "record")
    ladders: dict[str, list[tuple[Any, ...]]] = {}
    for row in made["board"].to_pylist():
        ladders.setdefault(row["shape_key"], []).append((*(row[name] for name in fields), row["stale"]))
    assert ladders == {
        problem: [
            (*(getattr(row, name) for name in fields), ", ".join(row.stale))
            for row in board.rows
            if row.rank is not None
        ]
        for problem, board in newest.items()
        if board.leader
    }


def test_its_leaders_are_those_of_the_leaderboard(made: dict[str, Any], newest: dict[str, Board]) -> None:
    leaders = {row["shape_key"]: (row["model"], row["iteration"]) for row in made["leaders"].to_pylist()}
    assert leaders == {
        problem: (board.leader.model, board.leader.iteration) for problem, board in newest.items() if board.leader
    }


def test_its_means_are_those_of_the_results(made: dict[str, Any]) -> None:
    page = generator.facts("h200")
    means = made["means"].to_pylist()
    assert len(means) >= 10
    for row in means:
        assert math.isfinite(row["mean"])
        assert f"| `{row['operator']}` | {row['problems']} | {row['ahead']} | {row['mean']:.3f} |" in page
    assert made["short"].num_rows >= 1


def test_it_holds_no_output() -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells if "outputs" in cell)
