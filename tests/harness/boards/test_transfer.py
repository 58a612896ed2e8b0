"""Leaders of one GPU key that join the ladders of another: with what they descend from, and never over a file."""

import shutil
from pathlib import Path

import pytest

from harness.boards import leaderboard
from harness.boards.transfer import transfer
from harness.catalog import gpus
from harness.catalog.tree import Selection, Tree
from harness.errors import UsageError
from harness.judge import contract
from tests.harness.checkout import ROOT

SHAPE = "matmul_bf16fp32_6144x6144x6144"
H200, H100 = gpus.find("h200"), gpus.find("h100")
ALL = Selection()


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A repository with this ladder of the H200, as it was measured."""
    for part in ("srcs", "logs"):
        place = Path("tuning/h200/tilelang") / part / SHAPE
        shutil.copytree(ROOT / place, tmp_path / place)
    return Tree(tmp_path)


def leaders(tree: Tree) -> list[str]:
    board, *_ = leaderboard.boards(tree, "h200", ALL)[0]
    return [row.iteration for row in board.rows if row.rank == 1]


def test_a_leader_comes_with_its_parents_once(tree: Tree) -> None:
    done, complaints = transfer(tree, H200, H100, ALL)

    assert (complaints, done.known) == ([], 0)
    theirs = tree.sources("h200", SHAPE, "tilebench")
    for path in map(tree.root.joinpath, done.paths):
        assert path.read_bytes() == (theirs / path.name).read_bytes()
        contract.check(tree.parse(path))  # which wants the parent too
    names = {Path(path).stem for path in done.paths}
    assert set(leaders(tree)) < names  # and iter000 at least
    assert done.paths[0].endswith("iter000_torch_matmul.py")

    again, _ = transfer(tree, H200, H100, ALL)
    assert (again.paths, again.known) == ((), len(leaders(tree)))


def test_a_number_that_is_taken_leaves_a_leader_out(tree: Tree) -> None:
    own = tree.sources("h100", SHAPE, "tilebench")
    own.mkdir(parents=True)
    mine = own / "iter001_of_my_own.py"  # each leader descends from an iter001, or is one
    mine.write_text("")

    done, complaints = transfer(tree, H200, H100, ALL)

    assert done.paths == ()
    assert len(complaints) == len(leaders(tree))
    for name, said in zip(leaders(tree), complaints, strict=True):
        assert f"{name} is left out: {tree.short(mine)} has the number of iter001" in said
    assert list(own.iterdir()) == [mine]


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [("h200", "a100", "sm_90a"), ("h200", "h200", "already"), ("h100", "h200", "no kernel leads")],
)
def test_what_cannot_be_transferred_is_one_line(tree: Tree, source: str, target: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        transfer(tree, gpus.find(source), gpus.find(target), ALL)
