"""A record measured again as it was recorded: from the tree, or from history when the tree has moved on."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from harness.boards.reproduction import RecordedCode, Reproduction, again
from harness.errors import UsageError
from harness.records.environment import CONTENTS
from harness.records.store import read
from tests.harness.checkout import BUDGET, MODEL, ROOT, SCALAR, SHAPE, Checkout, one_line
from tests.harness.envelopes import answer
from tests.harness.examples import ENVIRONMENT, record

pytestmark = pytest.mark.slow


def git(root: Path, *words: str) -> None:
    command = ["git", "-C", str(root), "-c", "user.name=me", "-c", "user.email=me@here", *words]
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """A repository in which one iteration is measured and committed."""
    checkout = Checkout.create(tmp_path_factory.mktemp("recorded") / "checkout")
    (checkout.root / ".gitignore").write_text("tmp/\n__pycache__/\nstd*.txt\n")
    checkout.ladder((8,))
    assert checkout.run("bench", *BUDGET).returncode == 0
    git(checkout.root, "init", "--quiet")
    git(checkout.root, "add", "-A")
    git(checkout.root, "commit", "--quiet", "-m", "recorded")
    yield checkout
    checkout.end()


@pytest.fixture
def recorded(committed: Checkout, tmp_path: Path) -> Iterator[tuple[Checkout, str]]:
    """A copy of it, and the record's id."""
    copy = committed.copied(tmp_path / "copy")
    yield copy, copy.records()[-1].id
    copy.end()


def kept(checkout: Checkout) -> list[Reproduction]:
    path = checkout.tree.records("cpu", SHAPE, MODEL).with_name("reproductions.jsonl")
    found, problems = read(path, Reproduction)
    assert problems == []
    return found


def test_from_the_tree_by_the_beginning_of_its_id(recorded: tuple[Checkout, str]) -> None:
    checkout, name = recorded
    before = checkout.records()
    done = checkout.run("reproduce", name[:8])
    assert done.returncode == (0 if "agrees" in done.stdout else 1), done.stderr
    assert "its code comes from the working tree" in done.stderr
    (found,) = kept(checkout)
    assert (found.original, found.source) == (name, "the working tree")
    assert found.again.measurement is not None
    assert (found.quotient is None) == (found.why is not None)  # a busy machine may be too noisy for one
    assert found.again.source_sha256 == before[-1].source_sha256
    assert checkout.records() == before  # the ladder's own records are left alone
    assert checkout.leftovers() == []


def test_from_history_when_the_tree_has_moved_on(recorded: tuple[Checkout, str]) -> None:
    checkout, name = recorded
    original = checkout.records()[-1].source_sha256
    checkout.write("iter001_tiles_of_8", SCALAR.format(block=16))
    git(checkout.root, "commit", "--quiet", "-a", "-m", "another idea")
    done = checkout.run("reproduce", name, "--json")
    assert done.returncode in (0, 1), done.stderr
    assert "its code comes from commit " in done.stderr
    assert answer(done.stdout)["again"]["source_sha256"] == original
    command = ["git", "-C", str(checkout.root), "worktree", "list"]
    assert len(subprocess.run(command, capture_output=True, check=True).stdout.splitlines()) == 1
    assert checkout.leftovers() == []


def test_what_is_nowhere_any_more_is_said(recorded: tuple[Checkout, str]) -> None:
    checkout, name = recorded
    checkout.write("iter001_tiles_of_8", SCALAR.format(block=16))
    git(checkout.root, "commit", "--quiet", "-a", "--amend", "-m", "as if it had never been")
    done = checkout.run("reproduce", name)
    assert done.returncode == 2
    assert "is neither in the working tree nor in git's history" in one_line(done.stderr)
    assert kept(checkout) == []


def test_a_record_of_no_image_is_not_measured_in_one(recorded: tuple[Checkout, str]) -> None:
    checkout, name = recorded
    done = checkout.run("reproduce", name, "--in-image")
    assert done.returncode == 2
    assert "was not made in a container's image" in one_line(done.stderr)


def test_an_image_that_is_known_by_its_contents_cannot_be_found_again() -> None:
    plainly = msgspec.structs.replace(ENVIRONMENT, image=f"{CONTENTS}ab12")
    found = RecordedCode(record(environment=plainly), ROOT, "the working tree")
    with pytest.raises(UsageError, match=r"made by a plain 'docker run'.*run reproduce inside that image"):
        again(found, in_image=True)
