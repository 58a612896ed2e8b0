"""Publishing: what is read from an iteration's source, which rows win, and the file that lies in kernels/."""

import shutil
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from harness.boards import leaderboard
from harness.boards.board import BoardRow
from harness.boards.publication import Call, Unreadable, publication, read_call
from harness.catalog.tree import Selection, Tree
from harness.records import published
from tests.harness.checkout import Checkout

NOTHING = published.Publication("h200")
ROOT = Path(__file__).resolve().parents[3]
SOURCE = """
from harness.iteration import Problem, Program
from kernels.compiled import compiled
from kernels.gemm import stream_k as family

CONFIG = {config}


def build(problem: Problem) -> Program:
    {body}
"""


def source(body: str, config: str = "dict(block_M=128, registers=(40, 232))") -> str:
    return SOURCE.format(body=body, config=config)


@pytest.mark.parametrize(
    ("text", "call"),
    [
        (
            source("return family(problem, **CONFIG)"),
            Call("kernels.gemm.stream_k", {"block_M": 128, "registers": (40, 232)}, wrapped=False),
        ),
        (
            source("return family(problem, block_M=64)", "{}"),
            Call("kernels.gemm.stream_k", {"block_M": 64}, wrapped=False),
        ),
        (
            source("return compiled(family, problem, **CONFIG)", "{'pass_configs': {'tl.x': True}}"),
            Call("kernels.gemm.stream_k", {"pass_configs": {"tl.x": True}}, wrapped=True),
        ),
    ],
)
def test_a_call_of_a_family_is_read(text: str, call: Call) -> None:
    assert read_call(text) == call


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def build(", "it does not parse"),
        ("CONFIG = {}", "it has no build"),
        (source("x = 1\n    return family(problem, **CONFIG)"), "more than one call"),
        (source("return problem"), "more than one call"),
        (source("return other(problem, **CONFIG)"), "not a family of kernels/"),
        (source("return family(problem, 128, **CONFIG)"), "more than the problem and levers by name"),
        (source("return family(problem, block_M=problem.dims[0])"), "'problem.dims\\[0\\]' is not a literal"),
        (source("return family(problem, **CONFIG)", "dict(other)"), "CONFIG is no dict of literals"),
        (source("return family(problem, **CONFIG)", "[1]"), "CONFIG is no dict of literals"),
    ],
)
def test_what_is_no_such_call_says_why(text: str, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        read_call(text)


def fresh(row: BoardRow) -> BoardRow:
    """The row as if nothing had changed since, and without a figure at the power limit."""
    none = dict.fromkeys(("sustained_ratio", "sustained_ratio_low", "sustained_ratio_high", "sustained_record"))
    return msgspec.structs.replace(row, stale=(), **none)


def test_who_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    h200 = Tree(ROOT)
    board, *_ = leaderboard.boards(h200, "h200", Selection(shape="matmul_bf16fp32_4096x4096x4096"))[0]
    assert len(board.rows) > 3

    def found(rows: tuple[BoardRow, ...], before: published.Publication = NOTHING) -> published.Publication:
        changed = replace(board, rows=rows)
        monkeypatch.setattr("harness.boards.leaderboard.boards", lambda *_: ([changed], []))
        return publication(h200, "h200", before)[0]

    def winner(made: published.Publication) -> str:
        return made.winners[board.problem].iteration

    first, second, *others = map(fresh, board.rows)
    made = found((first, second, *others))
    assert winner(made) == f"{first.model}/{first.iteration}"
    stale = msgspec.structs.replace(first, stale=("family", "judge"))
    behind = f"{second.model}/{second.iteration}"
    assert winner(found((stale, second, *others))) == behind
    assert found((stale, second, *others), made) == made  # what is published stays until it is measured again
    assert winner(found((msgspec.structs.replace(first, stale=("source",)), second, *others), made)) == behind
    measured_again = msgspec.structs.replace(first, record="another", stale=("judge",))
    assert winner(found((measured_again, second, *others), made)) == behind
    wrong = msgspec.structs.replace(first, status="rejected")
    assert winner(found((wrong, second, *others), made)) == behind
    assert first.environment is not None
    locked = msgspec.structs.replace(first.environment, locked_mhz=1410)
    assert winner(found((msgspec.structs.replace(first, environment=locked), second, *others))) == behind
    level = tuple(msgspec.structs.replace(row, ratio_low=0.999) for row in (first, second, *others))
    none = found(level, made)
    assert not none.winners
    assert "no kernel is above torch.matmul for sure" in none.library[board.problem]
    assert found((), none) == none
    assert found(()) == NOTHING


def test_who_wins_at_the_power_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    h200 = Tree(ROOT)
    board, *_ = leaderboard.boards(h200, "h200", Selection(shape="matmul_bf16fp32_4096x4096x4096"))[0]
    first, second, *_ = map(fresh, board.rows)
    ahead = msgspec.structs.replace(first, ratio=1.05, ratio_low=1.04, ratio_high=1.06)

    def sustained(row: BoardRow, low: float, high: float, **changes: object) -> BoardRow:
        bounds = {"sustained_ratio_low": low, "sustained_ratio_high": high, "sustained_ratio": (low + high) / 2}
        return msgspec.structs.replace(row, sustained_record=f"at the limit {low}", **bounds | changes)

    def found(*rows: BoardRow, before: published.Publication = NOTHING) -> published.Publication:
        changed = replace(board, rows=rows)
        monkeypatch.setattr("harness.boards.leaderboard.boards", lambda *_: ([changed], []))
        return publication(h200, "h200", before)[0]

    leads, follows = sustained(ahead, 1.02, 1.03), sustained(second, 1.035, 1.045)
    made = found(leads, follows)
    winner = made.sustained[board.problem]
    assert isinstance(winner, published.Winner)
    assert made.winners[board.problem].iteration == f"{first.model}/{first.iteration}"
    assert (winner.iteration, winner.ratio, winner.low, winner.high, winner.record) == (
        f"{second.model}/{second.iteration}", 1.04, 1.035, 1.045, "at the limit 1.035",
    )  # fmt: skip
    assert not found(leads, second).sustained and not found(ahead, follows).sustained  # one of two has no figure
    assert not found(leads, sustained(second, 1.025, 1.045)).sustained  # the intervals meet
    stale = msgspec.structs.replace(follows, stale=("judge",))
    assert not found(leads, stale).sustained
    assert not found(leads, msgspec.structs.replace(follows, status="rejected")).sustained
    assert found(leads, stale, before=made) == made
    assert not found(leads, msgspec.structs.replace(stale, sustained_record="another"), before=made).sustained
    slow = found(sustained(ahead, 0.97, 0.98), second).sustained[board.problem]
    assert slow == (
        "no kernel is above torch.matmul for sure at the power limit: "
        f"{first.model}/{first.iteration} has 0.9750 [0.9700, 0.9800]"
    )
    level = msgspec.structs.replace(follows, ratio=1.0, ratio_low=0.999, ratio_high=1.001)
    made = found(level)
    assert board.problem in made.library and isinstance(made.sustained[board.problem], published.Winner)


def test_kernels_that_are_no_family_s_are_neither_published_nor_called_slow() -> None:
    """A transposed copy leads torch by 3.4 on an H200, with a kernel of its own; a ceiling has the library alone."""
    made, _ = publication(Tree(ROOT), "h200", NOTHING)
    boards = {board.problem for board in leaderboard.boards(Tree(ROOT), "h200", Selection())[0]}
    for problem in ("contiguous_f32fp32_8192x8192", "copy_f32fp32_65536x1024"):
        assert problem in boards and problem not in {**made.winners, **made.library}


def test_what_lies_in_kernels_is_what_the_leaderboard_gives() -> None:
    path = published.place(ROOT, "h200")
    made, complaints = publication(Tree(ROOT), "h200", published.read(path))
    assert complaints == []
    assert path.read_bytes() == published.encode(made)
    assert made.winners
    assert all(winner.low > 1 for winner in made.winners.values())


def test_the_verb_checks_and_writes(checkout: Checkout) -> None:
    empty = checkout.run("publish", "--gpu", "h200")
    assert empty.returncode == 2
    assert "nothing to publish" in empty.stderr
    assert checkout.run("publish", "--gpu", "cpu").returncode == 2
    shutil.copytree(ROOT / "tuning" / "h200", checkout.root / "tuning" / "h200")
    assert checkout.run("publish", "--gpu", "h200", "--check").returncode == 0
    path = published.place(checkout.root, "h200")
    made = published.read(path)
    problem, winner = next(iter(made.winners.items()))
    wrong = {**made.winners, problem: msgspec.structs.replace(winner, ratio=9.9)}
    path.write_bytes(published.encode(msgspec.structs.replace(made, winners=wrong)))
    changed = checkout.run("publish", "--gpu", "h200", "--check")
    assert changed.returncode == 1
    assert "tilebench publish --gpu h200" in changed.stdout
    assert checkout.run("publish", "--gpu", "h200").returncode == 0
    assert path.read_bytes() == published.place(ROOT, "h200").read_bytes()
