"""Opponents as their files describe them: read without their packages, each pinned as in pyproject.toml."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from harness.catalog import opponents
from harness.catalog.gpus import find
from harness.catalog.opponents import Opponent, Opponents
from harness.errors import UsageError
from harness.judge.facts.hashes import families_sha256, judge_sha256
from harness.judge.facts.problem import parse_shape_key
from harness.machine.hints import pip_install
from tests.harness.checkout import ROOT

MATMUL = parse_shape_key("matmul_f32fp32_32x32x32")
FILE = """
from harness.catalog.opponents import Opponent

def build(problem):
    import a_package_that_nobody_has

OPPONENTS = (
    Opponent(name="{name}", what="A product.", build=build, operators={{"matmul": ("f32",)}}, architectures=("c",),
             licence="MIT", source="https://example.org", requires={requires}, extra="opponents-here"),
)
"""


@pytest.fixture(autouse=True)
def a_checkout(tmp_path: Path) -> None:
    """All opponents of a checkout are its own."""
    (tmp_path / "harness" / "judge").mkdir(parents=True)


def written(root: Path, file: str, text: str) -> Path:
    path = root / opponents.FOLDER / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_tree_without_them_has_none(tmp_path: Path) -> None:
    assert Opponents.of(tmp_path).members == ()


def test_a_repository_has_its_own_beside_those_that_are_shipped(tmp_path: Path) -> None:
    own = tmp_path / "mine"
    written(own, "one.py", FILE.format(name="one", requires=()))
    shipped = [each.name for each in Opponents.of(ROOT).members]
    assert [each.name for each in Opponents.of(own).members] == [*shipped, "one"]


def test_a_file_is_found_by_being_there_and_imports_no_package(tmp_path: Path) -> None:
    path = written(tmp_path, "one.py", FILE.format(name="one", requires=()))
    written(tmp_path, "__init__.py", "")
    (found,) = Opponents.of(tmp_path).members
    assert (found.name, found.path, found.missing) == ("one", path, None)
    entry = found.entry(MATMUL, find("cpu"))
    assert (entry.name, entry.model, entry.number, entry.path) == ("one", "opponents", 0, path)
    assert str(entry) == "cpu/matmul_f32fp32_32x32x32/opponents/one"


@pytest.mark.parametrize(
    ("pin", "lacks"), [("msgspec==0.0.1", True), ("no-such-package==1.0", True), ("msgspec==0.22.0", False)]
)
def test_a_missing_package_is_one_line_with_the_command(tmp_path: Path, pin: str, lacks: bool) -> None:
    written(tmp_path, "one.py", FILE.format(name="one", requires=(pin,)))
    (found,) = Opponents.of(tmp_path).members
    assert found.missing == (f"{pin} is not installed; {pip_install(pin)}" if lacks else None)
    shipped = replace(found, path=ROOT / "baselines/opponents/one.py")
    assert shipped.missing == (f"{pin} is not installed; make opponents-here" if lacks else None)


def test_it_serves_what_its_file_names(tmp_path: Path) -> None:
    written(tmp_path, "one.py", FILE.format(name="one", requires=()))
    (found,) = Opponents.of(tmp_path).members
    assert found.serves(MATMUL, find("cpu"))
    assert not found.serves(MATMUL, find("h200"))
    assert not found.serves(parse_shape_key("linear_f32fp32_32x32x32"), find("cpu"))
    assert not found.serves(parse_shape_key("matmul_bf16fp32_32x32x32"), find("cpu"))


@pytest.mark.parametrize("text", ["OPPONENTS = (", "import a_package_that_nobody_has", "OPPONENTS = (1,)", "x = 1"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, "broken.py", text)
    with pytest.raises(UsageError, match=str(path)):
        Opponents.of(tmp_path)


def test_a_name_stands_for_one(tmp_path: Path) -> None:
    written(tmp_path, "one.py", FILE.format(name="one", requires=()))
    written(tmp_path, "other.py", FILE.format(name="one", requires=()))
    with pytest.raises(UsageError, match=r"one\.py describes opponent one too"):
        Opponents.of(tmp_path)


def test_the_hash_covers_what_a_file_imports(tmp_path: Path) -> None:
    path = written(tmp_path, "one.py", "from baselines.helper import help\n")
    helper = tmp_path / "baselines" / "helper.py"
    helper.write_text("def help(): ...\n")
    before = families_sha256(tmp_path, path)
    helper.write_text("def help(): return 1\n")
    assert families_sha256(tmp_path, path) != before


def test_an_opponent_is_in_no_hash_of_the_judge(tmp_path: Path) -> None:
    before = judge_sha256.__wrapped__(tmp_path, "matmul", find("cpu"))
    written(tmp_path, "one.py", "def matmul(): ...\n")
    assert judge_sha256.__wrapped__(tmp_path, "matmul", find("cpu")) == before


@pytest.mark.parametrize("opponent", Opponents.of(ROOT).members, ids=lambda each: each.name)
def test_each_of_ours_is_pinned_as_its_extra_is(opponent: Opponent) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert list(opponent.requires) == (extras[opponent.extra] if opponent.requires else [])
    assert opponent.licence
    assert opponent.source.startswith("https://")


def test_a_cpu_has_opponents_that_need_no_package() -> None:
    served = list(Opponents.of(ROOT).serving(MATMUL, find("cpu")))
    assert [each.name for each in served if each.missing is None] == ["tilelang_stock_cpu"]
