"""A repository of one's own: what ``init`` writes, and the verbs on its operators, baselines and families."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.boards import exports
from harness.catalog import gpus
from harness.catalog.tree import Selection, Tree
from harness.cli.app import app, carry_out
from harness.errors import UsageError
from harness.judge.facts.hashes import families_sha256, judge_sha256
from harness.judge.facts.problem import parse_shape_key
from harness.operators import OPERATORS, adopt
from tests.harness.checkout import ROOT
from tests.harness.envelopes import envelope
from tests.harness.examples import record

CPU = gpus.find("cpu")
SHAPE = "mirror_f32fp32_16x32"
LADDER = ("--gpu", "cpu", "--shape", SHAPE, "--model", "me")
OWN = {
    "operators/mirror.py": "from dataclasses import replace\n\nfrom .moves import MOVE\n\n"
    'OPERATOR = replace(MOVE, name="mirror")\n',
    "operators/moves.py": "from harness.operators.copy import OPERATOR as MOVE\n",
    "baselines/torch_mirror.py": "def mirror(x, out):\n    out.copy_(x)\n",
    "kernels/rows/loops.py": "STEP = 1\n",
    "kernels/rows/family.py": """
from harness.catalog.families import Draft, Family

NAME = "kernels.rows.rows"
FAMILY = Family(
    name=NAME, operators={"mirror": ("f32",)}, architectures=("c",), space={"step": [1]},
    draft=lambda problem, gpu: Draft("rows", "Row by row.", NAME, {"step": 1}),
)
""",
}
Run = Callable[..., Any]


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    """A verb: its data, or what is wrong."""

    def carried_out(*words: str) -> Any:
        carry_out([*words, "--json"])
        out = capsysbinary.readouterr().out
        return envelope(out)["data"] or "\n".join(envelope(out)["problems"])

    return carried_out


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Iterator[Path]:
    monkeypatch.setenv("TILEBENCH_ROOT", str(tmp_path))
    run("init", str(tmp_path))
    for name, text in OWN.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    yield tmp_path
    adopt(ROOT)


def test_init_writes_a_repository_and_nothing_twice(tmp_path: Path, run: Run) -> None:
    made = run("init", str(tmp_path / "new"))
    assert {"tilebench.toml", "operators", "baselines", "kernels", "tuning", "noxfile.py"} <= set(made["written"])
    (tmp_path / "new" / "Makefile").write_text("mine")
    assert run("init", str(tmp_path / "new"))["written"] == []
    assert (tmp_path / "new" / "Makefile").read_text() == "mine"
    assert "is a file; name a folder" in run("init", str(tmp_path / "new" / "Makefile"))


def test_the_files_of_a_new_repository_name_verbs_that_there_are() -> None:
    starter = ROOT / "harness" / "authoring" / "starter"
    made = re.search(r"VERBS *:= (.*)", (starter / "Makefile").read_text())
    sessions = re.search(r"for each in \((.*)\)", (starter / "noxfile.py").read_text())
    assert made is not None and sessions is not None
    assert {*made[1].split(), *re.findall(r'"(\w+)"', sessions[1])} <= set(app)
    project = re.search(r'^name = "(\S+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert project is not None
    assert f"|| '{project[1]}'" in (starter / ".github/workflows/checks.yml").read_text()


def test_verbs_know_its_operators_baselines_and_families(root: Path, run: Run) -> None:
    path = Path(run("new", *LADDER)["path"])
    assert "from kernels.rows import rows" in path.read_text()
    assert (path.parent / "iter000_torch_mirror.py").is_file()
    assert run("next", *LADDER)["parent"] == "iter000_torch_mirror"  # not the draft that is not edited
    assert "those for a CPU are kernels." in run("tune", *LADDER, "--family", "none_such")
    first, second = run("check", *LADDER)["records"]
    assert first["status"] == "passed"
    assert "the docstring is still that of `new`" in second["reason"]
    assert len(run("leaderboard", "--gpu", "cpu")) == 2


def test_an_export_has_its_own_dimensions(root: Path) -> None:
    (root / "operators" / "mirror.py").write_text(
        "from harness.operators.elementwise import elementwise\n\n"
        'OPERATOR = elementwise("mirror", ("ROWS", "N"), inputs={"x": "ROWS, N"}, reference=None, signed_sum=None)\n'
    )
    Tree.opened(root)
    (row,) = exports.rows([msgspec.structs.replace(record(), shape_key=SHAPE)])
    assert (row["dim_ROWS"], row["dim_N"], row["dim_M"]) == (16, 32, None)
    assert "dim_ROWS" not in exports.COLUMNS


def test_another_repository_has_other_operators(root: Path) -> None:
    Tree.opened(root)
    assert parse_shape_key(SHAPE).operator == "mirror"
    Tree.opened(ROOT)
    assert "mirror" not in OPERATORS
    with pytest.raises(UsageError, match="unknown operator 'mirror'"):
        parse_shape_key(SHAPE)


@pytest.mark.parametrize("name", ["operators/mirror.py", "operators/moves.py", "baselines/torch_mirror.py"])
def test_the_judges_hash_covers_what_of_it_decides(root: Path, name: str) -> None:
    before = [judge_sha256.__wrapped__(root, operator, CPU) for operator in ("mirror", "copy")]
    assert before[1] == judge_sha256.__wrapped__(ROOT, "copy", CPU)
    (root / name).write_text(OWN[name] + "changed = 1\n")
    after = [judge_sha256.__wrapped__(root, operator, CPU) for operator in ("mirror", "copy")]
    assert (after[0] != before[0], after[1] == before[1]) == (True, True)


@pytest.mark.parametrize("source", ["from kernels.rows.loops import STEP", "from kernels.rows import loops"])
def test_the_hash_of_an_iteration_covers_its_families(root: Path, source: str) -> None:
    path = root / "tuning" / "iter001_idea.py"
    path.write_text(source)
    before = families_sha256(root, path)
    (root / "kernels/rows/loops.py").write_text("STEP = 2\n")
    assert families_sha256(root, path) != before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\nOPERATOR = (", ":2: cannot be read: SyntaxError"),
        ("import no_such_package", ":1: cannot be read: ModuleNotFoundError"),
        ("\n\nOPERATOR = 3", ": OPERATOR must be an Operator with the name 'mirror', as its file has"),
    ],
)
def test_an_operator_that_cannot_be_read_stops_its_own_problems_alone(
    root: Path, run: Run, text: str, message: str
) -> None:
    (root / "operators" / "mirror.py").write_text(text)
    assert f"{root}/operators/mirror.py{message}" in run("new", *LADDER)
    assert run("new", "--gpu", "cpu", "--shape", "copy_f32fp32_16x32", "--model", "me")
    for number in range(2):  # told once, though two of its files are there
        path = root / "tuning" / "cpu" / "tilelang" / "srcs" / SHAPE / "me" / f"iter00{number}_idea.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    _, misplaced = Tree.opened(root).scan("cpu", Selection())
    (told,) = (each.reason for each in misplaced)
    assert told.startswith(f"{root}/operators/mirror.py{message}")


def test_a_wrong_setting_and_a_taken_name_stop_every_verb(root: Path, run: Run) -> None:
    (root / "operators" / "copy.py").touch()
    assert "copy.py: harness.operators.copy is shipped already; choose another name" in run("next", *LADDER)
    (root / "tilebench.toml").write_text("\nmodel = 'me'\n")
    assert "tilebench.toml:2: unknown field 'model'; known: requires" in run("next", *LADDER)
    assert not list((root / "tuning").glob("*/"))
