"""The leaderboard ranks records as they lie on the disk, and nothing else."""

import itertools
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from harness.boards import comparable, leaderboard, tables
from harness.boards.board import Board, BoardRow
from harness.boards.rivals import rivalry
from harness.boards.tables import leaderboard as table
from harness.catalog import gpus
from harness.catalog.opponents import FOLDER
from harness.catalog.tree import Selection, Tree
from harness.judge.facts.hashes import (
    AMENDED,
    Amendment,
    amendment,
    families_sha256,
    judge_as_it_is,
    judge_sha256,
    source_sha256,
)
from harness.records.base import Cause, Environment, Regime, RowKind, Stage, Status, identity
from harness.records.pairs import PairRecord
from harness.records.results import Record
from harness.records.same_code import SameCode
from harness.records.store import append
from tests.harness.checkout import ROOT
from tests.harness.examples import ENVIRONMENT, measurement, record

SHAPE = "matmul_f32fp32_8x8x8"
JUDGE = (
    "harness/judge/judge.py", "harness/judge/facts/operator.py", "harness/operators/matmul.py",
)  # fmt: skip


OPPONENT = """
from harness.catalog.opponents import Opponent

OPPONENTS = (Opponent(name="{name}", what="A product.", build=print, operators={{"matmul": ("f32",)}},
                      architectures=("c",), licence="MIT", source="https://example.org"),)
"""


class Ladder:
    """A tree with iterations, and records made for what they are now."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        for part in (*JUDGE, "kernels/family.py"):
            path = tree.root / part
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        self.environment = msgspec.structs.replace(
            ENVIRONMENT, judge_sha256=judge_sha256(tree.root, "matmul", gpus.find("cpu"))
        )
        self.clock = 0

    def write(self, number: int, model: str = "me", source: str = "import kernels.family\n") -> None:
        path = self.tree.folder("cpu") / "srcs" / SHAPE / model / f"iter{number:03d}_idea.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)

    def made(self, number: int, model: str = "me", **changes: Any) -> Record:
        """A record of the iteration as it is; later ones are newer."""
        path = self.tree.folder("cpu") / "srcs" / SHAPE / model / f"iter{number:03d}_idea.py"
        if not path.exists():
            self.write(number, model)
        self.clock += 1
        fields = {
            "iteration": path.stem,
            "number": number,
            "model": model,
            "recorded_at": f"2026-01-01T00:00:{self.clock:02d}.000+00:00",
            "source_sha256": source_sha256(path),
            "families_sha256": families_sha256(self.tree.root, path),
            "environment": self.environment,
        }
        made = record(**fields | changes)
        append(self.tree.records("cpu", SHAPE, model), made)
        return made

    def measured(self, number: int, low: float, high: float, model: str = "me", **changes: Any) -> Record:
        return self.made(number, model, measurement=measurement(low, high), **changes)

    def keeps_code(self, made: Record, **changes: str) -> None:
        """Record that the families of now give the record's iteration the code that those of then gave."""
        path = self.tree.folder("cpu") / "srcs" / SHAPE / made.model / f"{made.iteration}.py"
        found = SameCode(
            **identity(self.tree.parse(path)),
            source_sha256=made.source_sha256,
            before_sha256=made.families_sha256,
            after_sha256=families_sha256(self.tree.root, path),
            code_sha256="code",
            commit="commit",
            arch="c",
            nvcc="",
            tilelang=made.environment.tilelang,
        )
        append(self.tree.same_code("cpu", SHAPE, made.model), msgspec.structs.replace(found, **changes))

    def failed(self, number: int, **changes: Any) -> Record:
        fields = {
            "status": Status.FAILED,
            "stage": Stage.BUILD,
            "cause": Cause.COMPILE,
            "reason": "it did not compile",
            "measurement": None,
            "verification": (),
        }
        return self.made(number, **fields | changes)

    def elsewhere(self, **changes: Any) -> Environment:
        return msgspec.structs.replace(self.environment, **changes)

    def boards(self, selection: Selection = Selection()) -> list[Board]:
        boards, complaints = leaderboard.boards(self.tree, "cpu", selection)
        assert complaints == []
        return boards

    def rows(self) -> list[BoardRow]:
        (board,) = self.boards()
        return list(board.rows)


@pytest.fixture
def ladder(tree: Tree) -> Ladder:
    return Ladder(tree)


def ranks(rows: list[BoardRow]) -> list[tuple[str, int | None]]:
    return [(row.iteration[:7], row.rank) for row in rows]


def test_the_fastest_is_first(ladder: Ladder) -> None:
    ladder.measured(0, 0.99, 1.01)
    ladder.measured(1, 1.49, 1.51)
    ladder.measured(2, 1.19, 1.21)
    assert ranks(ladder.rows()) == [("iter001", 1), ("iter002", 2), ("iter000", 3)]


def test_overlapping_intervals_share_a_rank_and_the_next_one_counts_them(ladder: Ladder) -> None:
    ladder.measured(0, 1.40, 1.50)
    ladder.measured(1, 1.35, 1.45)
    ladder.measured(2, 1.30, 1.39)  # reaches the second, but not the first of the rank
    ladder.measured(3, 0.90, 1.00)
    assert ranks(ladder.rows()) == [("iter000", 1), ("iter001", 1), ("iter002", 3), ("iter003", 4)]


def test_a_wide_interval_is_no_worse_than_what_it_reaches(ladder: Ladder) -> None:
    ladder.measured(1, 1.19, 1.21)
    ladder.measured(2, 0.80, 1.30)
    assert {row.rank for row in ladder.rows()} == {1}


def test_a_step_needs_the_whole_interval_above_the_best_so_far(ladder: Ladder) -> None:
    ladder.measured(0, 0.99, 1.01)
    ladder.measured(1, 1.10, 1.20)
    ladder.measured(2, 1.19, 1.23)  # better, but not certainly
    ladder.measured(3, 1.24, 1.25)
    ladder.measured(4, 0.50, 0.60)
    kept = {row.iteration[:7]: (row.decision, row.kept_as) for row in ladder.rows()}
    assert kept == {
        "iter000": ("KEEP", "step"),
        "iter001": ("KEEP", "step"),
        "iter002": ("DISCARD", ""),
        "iter003": ("KEEP", "leader"),
        "iter004": ("DISCARD", ""),
    }


def test_a_leader_is_kept_even_where_it_is_not_certainly_above_the_best_before_it(ladder: Ladder) -> None:
    ladder.measured(1, 1.10, 1.20)
    ladder.measured(2, 1.19, 1.40)
    assert [(row.decision, row.kept_as) for row in ladder.rows()] == [("KEEP", "leader")] * 2


def test_decisions_follow_the_ladder_not_the_order_of_measuring_and_are_each_models_own(ladder: Ladder) -> None:
    ladder.measured(2, 1.3, 1.4)
    ladder.measured(1, 1.1, 1.2)
    ladder.measured(1, 0.5, 0.6, model="you")
    decided = {(row.model, row.iteration[:7]): row.decision for row in ladder.rows()}
    assert decided == {("me", "iter001"): "KEEP", ("me", "iter002"): "KEEP", ("you", "iter001"): "KEEP"}


def test_a_failure_is_a_row_below_with_its_reason_and_is_discarded(ladder: Ladder) -> None:
    ladder.failed(1)
    ladder.measured(2, 1.0, 1.1)
    below = ladder.rows()[1]
    assert (below.iteration, below.rank, below.decision) == ("iter001_idea", None, "DISCARD")
    assert (below.status, below.reason) == ("failed", "it did not compile")


def test_what_was_timed_and_then_rejected_has_no_rank(ladder: Ladder) -> None:
    ladder.measured(1, 9.0, 9.1, status=Status.REJECTED, cause=Cause.ROOFLINE, reason="too fast")
    ladder.measured(2, 1.0, 1.1)
    assert ranks(ladder.rows()) == [("iter002", 1), ("iter001", None)]


def test_an_iteration_without_a_record_says_so(ladder: Ladder) -> None:
    ladder.measured(1, 1.0, 1.1)
    ladder.write(2)
    row = ladder.rows()[1]
    assert (row.iteration, row.status, row.rank, row.decision) == ("iter002_idea", "not measured", None, None)
    assert row.source_sha256


def test_a_tree_without_records_is_a_board_of_what_is_not_measured(ladder: Ladder) -> None:
    ladder.write(1)
    (board,) = ladder.boards()
    assert board.environment is None
    assert "not measured yet" in table(board)


def test_nothing_is_stale_where_nothing_changed(ladder: Ladder) -> None:
    ladder.measured(1, 1.0, 1.1)
    assert ladder.rows()[0].stale == ()


@pytest.mark.parametrize("stale", ["source", "family", "judge"])
def test_a_row_is_stale_once_what_it_stands_on_changes(ladder: Ladder, stale: str) -> None:
    ladder.measured(1, 1.0, 1.1)
    if stale == "source":
        ladder.write(1, source="import kernels.family  # changed\n")
    elif stale == "family":
        (ladder.tree.root / "kernels/family.py").write_text("CHANGED = True\n")
    else:
        (ladder.tree.root / "harness/judge/judge.py").write_text("CHANGED = True\n")
        judge_sha256.cache_clear()
    row = ladder.rows()[0]
    assert row.stale == (stale,)
    assert row.rank == 1
    assert f"stale: {stale}" in table(ladder.boards()[0])


@pytest.mark.parametrize(
    ("changes", "stale"),
    [
        ({}, ()),
        ({"before_sha256": "other"}, ("family",)),
        ({"after_sha256": "other"}, ("family",)),
        ({"source_sha256": "other"}, ("family",)),
        ({"tilelang": "0.1.14"}, ("family",)),
    ],
)
def test_a_change_of_the_family_that_left_the_code_as_it_was_makes_nothing_stale(
    ladder: Ladder, changes: dict[str, str], stale: tuple[str, ...]
) -> None:
    measured = ladder.measured(1, 1.0, 1.1)
    (ladder.tree.root / "kernels/family.py").write_text("CHANGED = True\n")
    ladder.keeps_code(measured, **changes)
    assert ladder.rows()[0].stale == stale


def test_an_amendment_makes_no_row_stale_that_its_judge_made_before_it(ladder: Ladder) -> None:
    root, before, between = ladder.tree.root, "0" * 64, "1" * 64
    own = judge_as_it_is(root, "matmul", gpus.find("cpu"))
    made = Amendment("1234", "wider limits", {own: before}, earlier={between: before})
    (root / AMENDED).write_bytes(msgspec.json.encode(made))
    for each in (amendment, judge_sha256):
        each.cache_clear()
    for number, judge in enumerate((own, between, before), start=1):
        ladder.measured(
            number, 1.0 + 0.1 * number, 1.09 + 0.1 * number, environment=ladder.elsewhere(judge_sha256=judge)
        )
    assert ranks(ladder.rows()) == [("iter003", 1), ("iter002", 2), ("iter001", 3)]
    assert [row.stale for row in ladder.rows()] == [(), (), ()]


def test_rows_of_an_earlier_judge_follow_those_of_a_later_one(ladder: Ladder) -> None:
    """Its ratio may be to another baseline, as that of int4 was, 34 in place of 2."""
    first, second = (ladder.elsewhere(judge_sha256=digit * 64) for digit in "01")
    ladder.measured(1, 33.0, 34.0, environment=first)
    ladder.measured(4, 1.9, 2.0, environment=second)
    assert ranks(ladder.rows()) == [("iter004", 1), ("iter001", 2)]
    ladder.measured(2, 1.9, 2.0)
    ladder.measured(3, 33.5, 34.5, environment=first)
    assert ranks(ladder.rows()) == [("iter002", 1), ("iter003", 2), ("iter001", 2), ("iter004", 4)]
    assert [row.stale for row in ladder.rows()] == [(), ("judge",), ("judge",), ("judge",)]


@pytest.mark.parametrize(
    "change",
    [{"device": "Another"}, {"torch": "3"}, {"tilelang": "1"}, {"image": "sha256:1"}, {"forced": True}],
    ids=lambda change: next(iter(change)),
)
def test_environments_that_cannot_be_compared_have_boards_of_their_own(ladder: Ladder, change: dict[str, Any]) -> None:
    ladder.measured(1, 1.0, 1.1)
    ladder.measured(1, 2.0, 2.1, environment=ladder.elsewhere(**change))
    newest, older = ladder.boards()
    assert [row.ratio_low for row in newest.rows] == [2.0]
    assert [row.ratio_low for row in older.rows] == [1.0]
    assert newest.environment == ladder.elsewhere(**change)


def test_timers_are_never_ranked_together(ladder: Ladder) -> None:
    ladder.made(1, measurement=measurement(1.0, 1.1, timer="graph"))
    ladder.made(2, measurement=measurement(2.0, 2.1, timer="events"))
    boards = ladder.boards()
    assert sorted(board.timer or "" for board in boards) == ["events", "graph"]
    assert [[row.rank for row in board.rows] for board in boards] == [[1], [1]]


def test_the_latest_record_wins_even_where_it_is_worse(ladder: Ladder) -> None:
    ladder.measured(1, 2.0, 2.1)
    ladder.measured(1, 1.0, 1.1)
    assert [row.ratio_low for row in ladder.rows()] == [1.0]
    ladder.failed(1)
    assert [row.status for row in ladder.rows()] == ["failed"]


def test_an_edit_that_is_undone_has_its_figure_again(ladder: Ladder) -> None:
    before = ladder.measured(1, 2.0, 2.1)
    ladder.write(1, source="import kernels.family  # changed\n")
    ladder.measured(1, 1.0, 1.1)
    assert [(row.ratio_low, row.stale) for row in ladder.rows()] == [(1.0, ())]
    ladder.write(1)
    assert [(row.ratio_low, row.stale, row.record) for row in ladder.rows()] == [(2.0, (), before.id)]


def test_the_last_of_the_file_is_the_newest_whatever_its_clock_said(ladder: Ladder) -> None:
    ladder.measured(1, 2.0, 2.1, recorded_at="2026-11-20T12:00:00+00:00")
    ladder.measured(1, 1.0, 1.1, recorded_at="1970-01-01T00:00:00+00:00")
    assert [row.ratio_low for row in ladder.rows()] == [1.0]


def test_a_fault_of_the_machine_hides_no_measurement_of_the_same_source(ladder: Ladder) -> None:
    ladder.measured(1, 1.0, 1.1)
    ladder.failed(1, cause=Cause.REFEREE, stage=Stage.BENCH)
    assert [(row.ratio_low, row.status) for row in ladder.rows()] == [(1.0, "passed")]
    ladder.write(1, source="import kernels.family  # changed\n")
    ladder.failed(1, cause=Cause.REFEREE, stage=Stage.BENCH)
    assert [(row.ratio_low, row.status) for row in ladder.rows()] == [(None, "failed")]


def test_a_rejection_that_is_tried_again_hides_a_measurement_when_it_comes_twice(ladder: Ladder) -> None:
    on_a_gpu = [
        msgspec.structs.replace(each, gpu="h200")
        for each in (
            ladder.measured(1, 1.0, 1.1),
            ladder.failed(1, cause=Cause.CLOCK, stage=Stage.BENCH),
            ladder.failed(1, cause=Cause.OVERLAP, stage=Stage.BENCH),
        )
    ]
    assert list(comparable.latest(on_a_gpu[:2]).values()) == on_a_gpu[:1]
    assert list(comparable.latest(on_a_gpu).values()) == on_a_gpu[2:]
    fault = msgspec.structs.replace(on_a_gpu[1], cause=Cause.REFEREE)
    assert list(comparable.latest([on_a_gpu[0], fault, on_a_gpu[1]]).values()) == on_a_gpu[:1]
    assert list(comparable.latest([*on_a_gpu[:2], fault, on_a_gpu[2]]).values()) == on_a_gpu[2:]


def test_a_verification_hides_a_measurement_only_of_another_source(ladder: Ladder) -> None:
    ladder.measured(1, 1.0, 1.1)
    ladder.made(1, stage=Stage.VERIFY, measurement=None)
    assert [row.ratio_low for row in ladder.rows()] == [1.0]
    ladder.write(1, source="import kernels.family  # changed\n")
    ladder.made(1, stage=Stage.VERIFY, measurement=None)
    assert [row.ratio_low for row in ladder.rows()] == [None]


def test_a_selection_narrows_the_rows(ladder: Ladder) -> None:
    ladder.measured(1, 1.0, 1.1)
    ladder.measured(2, 1.2, 1.3, model="you")
    assert [row.model for board in ladder.boards(Selection(model="you")) for row in board.rows] == ["you"]
    assert ladder.boards(Selection(model="nobody")) == []


def test_a_selected_iteration_keeps_its_rank_and_its_decision(ladder: Ladder) -> None:
    ladder.measured(1, 1.2, 1.3)
    ladder.measured(2, 1.0, 1.1)
    (board,) = ladder.boards(Selection(iteration="2"))
    assert [(row.iteration[:7], row.rank, row.decision) for row in board.rows] == [("iter002", 2, "DISCARD")]


def test_what_cannot_be_read_is_said(ladder: Ladder) -> None:
    ladder.measured(1, 1.0, 1.1)
    path = ladder.tree.records("cpu", SHAPE, "me")
    path.write_bytes(b"garbage\n" + path.read_bytes())
    stray = ladder.tree.folder("cpu") / "srcs" / SHAPE / "me" / "notes.py"
    stray.touch()
    boards, complaints = leaderboard.boards(ladder.tree, "cpu", Selection())
    assert len(boards) == 1
    assert any("notes.py" in complaint for complaint in complaints)
    assert any(complaint.startswith(f"{path}:1: ") for complaint in complaints)


def test_the_worst_trial_is_shown_and_an_infinite_error_as_none(ladder: Ladder) -> None:
    worse = msgspec.structs.replace(record().verification[0], max_abs_err=5e-5, rel_err=3e-6)
    ladder.measured(1, 1.0, 1.1, verification=(*record().verification, worse))
    ladder.measured(2, 0.9, 0.95, verification=(worse, msgspec.structs.replace(worse, max_abs_err=None, rel_err=None)))
    first, second = ladder.rows()
    assert (first.max_abs_err, first.rel_err) == (5e-5, 3e-6)
    assert second.max_abs_err is None


def test_the_table_has_what_a_reader_needs(ladder: Ladder) -> None:
    ladder.measured(1, 1.0, 1.1)
    ladder.made(2, measurement=measurement(0.5, 0.6, stable=False))
    ladder.failed(3)
    text = table(ladder.boards()[0])
    title, where, *body = text.splitlines()
    assert title == f"{SHAPE} on cpu"
    assert "A processor" in where
    assert "timer host" in " ".join(text.split())
    for word in ("iter001_idea", "[1.0000, 1.1000]", "leader", "iter003: failed: it did not compile"):
        assert any(word in line for line in body), word


def test_a_cpu_states_its_resolution_and_a_gpu_marks_what_is_unstable(ladder: Ladder) -> None:
    ladder.made(1, measurement=measurement(0.98, 1.02, stable=False))
    ladder.made(2, measurement=measurement(0.45, 0.55, stable=False))
    (board,) = ladder.boards()
    assert board.resolution == pytest.approx(0.06)
    assert "resolution ±6.00%" in table(board)
    assert "unstable" not in table(board)
    rows = tuple(msgspec.structs.replace(row, gpu="h200") for row in board.rows)
    on_gpu = replace(board, gpu="h200", rows=rows)
    assert on_gpu.resolution is None
    assert "all: unstable" in table(on_gpu)


def test_a_board_says_on_how_many_chips_its_rows_were_measured(ladder: Ladder) -> None:
    ladder.measured(1, 1.0, 1.1)
    assert "chip" not in table(ladder.boards()[0])  # a CPU is none
    for number, chip in ((1, "GPU-a"), (2, "GPU-a"), (3, "GPU-b")):
        ladder.measured(number, 1.0, 1.1, environment=ladder.elsewhere(device_uuid=chip))
        (board,) = ladder.boards()
        assert f"measured on {board.chips} chip" in " ".join(table(board).split())
        assert board.chips == (2 if chip == "GPU-b" else 1)


def test_of_several_chips_the_one_that_measured_most_decides(ladder: Ladder) -> None:
    """The newest figure of the code counts on a chip; a newer rejection counts on any."""

    def on(chip: str, number: int, ratio: float, **changes: Any) -> None:
        ladder.measured(number, ratio, ratio + 0.1, environment=ladder.elsewhere(device_uuid=chip), **changes)

    on("GPU-a", 1, 1.2)
    on("GPU-a", 2, 1.4)
    on("GPU-b", 1, 1.6)
    assert [(row.iteration, row.ratio_low) for row in ladder.rows()] == [("iter002_idea", 1.4), ("iter001_idea", 1.2)]
    on("GPU-b", 2, 1.5)
    assert [row.ratio_low for row in ladder.rows()] == [1.6, 1.5]  # as many, and later
    on("GPU-a", 3, 1.0)
    assert [row.ratio_low for row in ladder.rows()] == [1.4, 1.2, 1.0]
    ladder.write(1, source="import kernels.family  # changed\n")
    on("GPU-c", 1, 1.7)
    assert [row.ratio_low for row in ladder.rows()] == [1.7, 1.4, 1.0]  # other code, which one chip alone measured
    failed: dict[str, Any] = {"status": Status.REJECTED, "cause": Cause.CRASH, "measurement": None}
    ladder.made(2, environment=ladder.elsewhere(device_uuid="GPU-b"), **failed)
    assert [row.status for row in ladder.rows()] == ["passed", "passed", "rejected"]


def test_the_leaders_are_one_line_a_problem_and_say_what_stands_behind_them(ladder: Ladder) -> None:
    ladder.measured(0, 0.99, 1.01)
    ladder.made(1, measurement=measurement(1.40, 1.42))
    ladder.made(2, measurement=measurement(1.41, 1.43))
    other = "matmul_f32fp32_16x16x16"
    path = ladder.tree.folder("cpu") / "srcs" / other / "me" / "iter001_idea.py"
    path.parent.mkdir(parents=True)
    path.touch()
    text = tables.leaders(ladder.boards())
    (line,) = (line for line in text.splitlines() if line.startswith(SHAPE))
    assert line.split() == [SHAPE, "iter002_idea", "1.4200", "0.70%", "1", "1", "level"]
    (line,) = (line for line in text.splitlines() if line.startswith(other))
    assert line.split() == [other, "not", "measured"]
    assert "2 problems, 1 with a leader, 1 certainly faster than the library; median 1.420" in " ".join(text.split())


def test_the_shipped_boards_keep_the_rule_of_ranks() -> None:
    """A row has the rank above it just where its interval reaches that of this rank's first row."""
    boards, _ = leaderboard.boards(Tree(ROOT), "h200", Selection())
    compared = 0
    for board in boards:
        first = board.leader
        for above, row in itertools.pairwise(row for row in board.rows if row.rank is not None and row.behind is None):
            assert above.rank and row.rank and row.ratio_high and above.ratio
            assert above.environment and row.environment
            if above.environment.judge_sha256 != row.environment.judge_sha256:  # these begin anew
                assert row.rank > above.rank
                first = row
                continue
            first = above if first is None or above.rank != first.rank else first
            assert first.ratio_low is not None
            assert (row.rank == above.rank) == (row.ratio_high >= first.ratio_low), row
            compared += 1
        assert all(row.decision == "KEEP" for row in board.rows if row.rank == 1)
    assert compared > 100


def test_rows_that_loaded_other_libraries_are_ranked_apart(ladder: Ladder) -> None:
    ladder.measured(1, 1.0, 1.1)  # an older record, which does not say what it loaded
    ladder.measured(2, 1.2, 1.3, environment=ladder.elsewhere(cublas="13.1.1", nvrtc="13.0"))
    ladder.measured(3, 1.4, 1.5, environment=ladder.elsewhere(cublas="13.1.1"))
    (together,) = ladder.boards()
    assert [row.rank for row in together.rows] == [1, 2, 3]
    ladder.measured(4, 1.6, 1.7, environment=ladder.elsewhere(cublas="13.10.0"))
    newest, older = ladder.boards()
    assert {row.iteration for row in newest.rows} == {"iter004_idea", "iter001_idea"}
    assert {row.iteration for row in older.rows} == {"iter003_idea", "iter002_idea"}


def opposed(ladder: Ladder, name: str, low: float, high: float, **changes: Any) -> None:
    """A record of the opponent, and its file."""
    path = ladder.tree.root / FOLDER / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(OPPONENT.format(name=name))
    shown = ladder.measured(1, 1.0, 1.1)
    fields = {"iteration": name, "model": "opponents", "number": 0, "kind": RowKind.OPPONENT}
    fields |= {"source_sha256": source_sha256(path), "families_sha256": families_sha256(ladder.tree.root, path)}
    record = msgspec.structs.replace(shown, measurement=measurement(low, high), **fields | changes)
    append(ladder.tree.opponents("cpu", SHAPE), record)


def paired(ladder: Ladder, opponent: str, low: float, high: float, **changes: Any) -> None:
    leader = ladder.measured(1, 1.0, 1.1)
    taken = {name: getattr(leader, name) for name in PairRecord.__struct_fields__ if hasattr(leader, name)}
    fields = {"opponent": opponent, "opponent_sha256": "", "opponent_imports_sha256": ""}
    pair = PairRecord(**taken | fields | {"measurement": measurement(low, high)} | changes)
    append(ladder.tree.pairs("cpu", SHAPE), pair)


def test_opponents_stand_below_the_strongest_first(ladder: Ladder) -> None:
    opposed(ladder, "weak", 0.8, 0.9)
    opposed(ladder, "strong", 1.8, 1.9)
    opposed(ladder, "broken", 2.0, 2.1, status=Status.REJECTED, cause=Cause.WRONG_RESULT, reason="it is wrong")
    (board,) = ladder.boards()
    assert [row.iteration for row in board.rows] == ["iter001_idea"]
    assert [row.iteration for row in board.opponents] == ["strong", "weak", "broken"]
    for row in board.opponents:
        assert (row.kind, row.rank, row.decision, row.kept_as) == (RowKind.OPPONENT, None, None, "opponent")
    assert board.rows[0].kind is RowKind.ITERATION
    assert board.best_opponent is board.opponents[0]


def test_the_pair_with_the_strongest_opponent_is_vs_best(ladder: Ladder) -> None:
    opposed(ladder, "weak", 0.8, 0.9)
    paired(ladder, "weak", 1.20, 1.24)
    assert ladder.rows()[0].vs_best == pytest.approx(1.22)
    opposed(ladder, "strong", 0.9, 1.0)
    assert ladder.rows()[0].vs_best is None  # the pair is with another than the strongest
    paired(ladder, "strong", 1.10, 1.14)
    paired(ladder, "strong", 0, 0, measurement=None, status=Status.REJECTED)
    paired(ladder, "strong", 3.0, 3.1, source_sha256="of another source")
    paired(ladder, "strong", 3.5, 3.6, families_sha256="of other families")
    paired(ladder, "strong", 4.0, 4.1, environment=ladder.elsewhere(judge_sha256="another"))
    row = ladder.rows()[0]
    assert row.best_opponent == "strong"
    assert [row.vs_best, row.vs_best_low, row.vs_best_high] == pytest.approx([1.12, 1.10, 1.14])
    told = tables.ladders(ladder.boards(), "github")
    assert "against strong 1.1200 [1.1000, 1.1400]" in told
    found = rivalry(ladder.boards()[0])
    assert found is not None
    assert (found.as_a_pair, found.ratio, found.figure) == (True, row.vs_best, "1.1200")


def test_an_opponent_beside_another_library_stands_on_no_board_of_this_one(ladder: Ladder) -> None:
    opposed(ladder, "strong", 1.8, 1.9, environment=ladder.elsewhere(cublas="13.1.1"))
    ladder.measured(1, 1.0, 1.1, environment=ladder.elsewhere(cublas="13.10.0"))
    assert [row.iteration for row in ladder.boards()[0].opponents] == []
    ladder.measured(1, 1.0, 1.1, environment=ladder.elsewhere(cublas="13.1.1"))
    assert [row.iteration for row in ladder.boards()[0].opponents] == ["strong"]


def test_a_wrong_opponent_says_nothing_of_the_leader(ladder: Ladder) -> None:
    wrong = {"measurement": None, "status": Status.REJECTED, "cause": Cause.WRONG_RESULT}
    paired(ladder, "strong", 0, 0, **wrong, reason="opponent strong is wrong, so there is no ratio: random trial")
    assert [(row.rank, row.status) for row in ladder.rows()] == [(1, "passed")]
    paired(ladder, "strong", 0, 0, **wrong, reason="random trial: off by 3")
    assert [(row.rank, row.status) for row in ladder.rows()] == [(None, "rejected")]


def test_without_a_pair_two_ratios_say_who_is_faster(ladder: Ladder) -> None:
    ladder.measured(1, 1.0, 1.1)
    assert rivalry(ladder.boards()[0]) is None
    opposed(ladder, "strong", 1.20, 1.22)
    board = ladder.boards()[0]
    found = rivalry(board)
    assert found is not None and not found.as_a_pair and found.opponent_leads
    assert (found.low, found.high) == pytest.approx((1.0 / 1.22, 1.1 / 1.20))
    assert board.rows[0].vs_best is None
    told = tables.leaders([board], "github")
    assert "strong is faster" in told and f"~{1.05 / 1.21:.3f}" in told
    assert "An opponent is certainly faster in 1" in " ".join(told.split())
    assert rivalry(board, Regime.SUSTAINED) is None


def test_on_80_columns_the_leaders_keep_what_they_are_beside_the_strongest_opponent(
    ladder: Ladder, monkeypatch: pytest.MonkeyPatch
) -> None:
    opposed(ladder, "strong", 1.20, 1.22)
    paired(ladder, "strong", 1.01, 1.03)
    (board,) = ladder.boards()
    wide = replace(board, problem="groupedlinear_bf16fp32_8192x4096x7168x32_spread32")
    monkeypatch.setenv("COLUMNS", "80")
    text = tables.leaders([wide])
    assert "1.0200" in text and "vs best: beside the strongest opponent" in " ".join(text.split())
    assert "±" not in text and max(map(len, text.splitlines())) <= 80


def test_the_leaders_table_says_where_an_opponent_is_faster(ladder: Ladder) -> None:
    opposed(ladder, "strong", 1.8, 1.9)
    paired(ladder, "strong", 0.97, 1.01)
    assert "strong is faster" not in tables.leaders(ladder.boards(), "github")
    paired(ladder, "strong", 0.97, 0.99)
    assert "strong is faster" in tables.leaders(ladder.boards(), "github")


def test_the_leaders_table_says_where_an_opponent_is_faster_at_the_power_limit(ladder: Ladder) -> None:
    opposed(ladder, "strong", 0.9, 1.0)
    (board,) = ladder.boards()
    bounds = {"sustained_ratio_low": 1.01, "sustained_ratio_high": 1.03}
    leader = msgspec.structs.replace(board.rows[0], sustained_ratio=1.02, sustained_rank=1, **bounds)
    bounds = {"sustained_ratio_low": 1.07, "sustained_ratio_high": 1.09}
    opponent = msgspec.structs.replace(board.opponents[0], sustained_ratio=1.08, **bounds)
    told = tables.leaders([replace(board, rows=(leader,), opponents=(opponent,))], "github")
    assert "strong is faster sustained" in told and f"~{1.02 / 1.08:.3f}" in told
    assert "An opponent is certainly faster at the power limit in 1" in " ".join(told.split())
