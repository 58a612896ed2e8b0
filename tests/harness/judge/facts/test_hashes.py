"""The hashes that say whether a result still holds follow what an iteration stands on, and nothing else."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.judge.facts.hashes import (
    AMENDED,
    Amendment,
    families_sha256,
    judge_as_it_is,
    judge_sha256,
    reading,
    source_sha256,
)
from harness.operators import OPERATORS
from tests.harness.checkout import ROOT

H200 = gpus.find("h200")

FILES = {
    "kernels/__init__.py": "from kernels.gemm import pipelined\n",  # for users of the kernels
    "kernels/gemm/__init__.py": "from kernels.gemm.pipelined import pipelined\nfrom kernels.gemm.other import other\n",
    "kernels/gemm/other.py": "from kernels import unrelated\n",
    "kernels/gemm/pipelined.py": "from . import operands\nfrom .deep.tiles import TILE\n",
    "kernels/gemm/operands.py": "import kernels.common\n",
    "kernels/gemm/deep/__init__.py": "",
    "kernels/gemm/deep/tiles.py": "from ..raster import order\n",
    "kernels/gemm/raster.py": "from kernels.gemm import pipelined\n",  # a circle
    "kernels/common.py": "",
    "kernels/unrelated.py": "",
    "baselines/__init__.py": "from baselines.interface import library\n",
    "baselines/interface.py": "from baselines import torch_matmul\n",
    "baselines/torch_matmul.py": "from baselines.common import call\ndef matmul(): ...\n",
    "baselines/torch_add.py": "def add(): ...\n",
    "baselines/common.py": "",
    "harness/judge/judge.py": "",
    "harness/operators/__init__.py": "OPERATORS = dict()\n",
    "harness/judge/facts/operator.py": "",
    "harness/operators/matmul.py": "from harness.judge.facts.operator import O\nfrom .products import f\n",
    "harness/operators/products.py": "",
    "harness/operators/add.py": "",
    "harness/boards/tables.py": "",
}
PASSED_OVER = [
    "kernels/__init__.py", "kernels/gemm/__init__.py", "kernels/gemm/other.py", "kernels/gemm/deep/__init__.py",
    "kernels/unrelated.py",
]  # fmt: skip
FOLLOWED = [path for path in FILES if path.startswith("kernels/") and path not in PASSED_OVER]


@pytest.fixture
def root(tree: Tree) -> Path:
    for name, content in FILES.items():
        path = tree.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return tree.root


def iteration(root: Path, source: str = "from kernels.gemm import pipelined\n") -> Path:
    path = root / "tuning" / "iter001_idea.py"
    path.write_text(source)
    return path


def changes(root: Path, path: Path, name: str) -> bool:
    before = families_sha256(root, path)
    (root / name).write_text(FILES[name] + "changed = 1\n")
    return families_sha256(root, path) != before


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_change_anywhere_below_an_import_changes_the_hash(root: Path, name: str) -> None:
    assert changes(root, iteration(root), name)


@pytest.mark.parametrize("name", [*PASSED_OVER, "baselines/__init__.py", "harness/boards/tables.py"])
def test_a_change_of_what_is_not_used_does_not(root: Path, name: str) -> None:
    assert not changes(root, iteration(root), name)


@pytest.mark.parametrize(
    "source",
    [
        "import kernels.unrelated",
        "import kernels.unrelated as family",
        "from kernels import unrelated",
        "from kernels.unrelated import anything",
        "def build(problem):\n    from kernels import unrelated",
        "try:\n    import kernels.unrelated\nexcept ImportError:\n    pass",
    ],
)
def test_every_form_of_import_is_followed(root: Path, source: str) -> None:
    assert changes(root, iteration(root, source), "kernels/unrelated.py")


def test_a_package_that_runs_code_takes_part(root: Path) -> None:
    before = families_sha256(root, iteration(root))
    (root / "kernels/gemm/__init__.py").write_text(FILES["kernels/gemm/__init__.py"] + "pipelined.tuned = True\n")
    assert families_sha256(root, iteration(root)) != before


def test_a_family_under_another_name_is_followed(root: Path) -> None:
    (root / "kernels/gemm/__init__.py").write_text("from .other import other as pipelined\n")
    assert changes(root, iteration(root), "kernels/unrelated.py")


def test_a_name_that_a_package_defines_itself_is_its_own(root: Path) -> None:
    path = iteration(root, "from kernels.gemm import anything")
    assert changes(root, path, "kernels/gemm/__init__.py")


def test_what_imports_itself_in_a_circle_ends(root: Path) -> None:
    (root / "kernels/gemm/__init__.py").write_text("from kernels.gemm import pipelined\n")
    (root / "kernels/gemm/pipelined.py").unlink()
    assert families_sha256(root, iteration(root))


def test_the_iterations_own_source_is_not_in_the_hash_of_its_families(root: Path) -> None:
    path = iteration(root)
    families, source = families_sha256(root, path), source_sha256(path)
    path.write_text(path.read_text() + "# changed\n")
    assert families_sha256(root, path) == families
    assert source_sha256(path) != source


@pytest.mark.parametrize("source", ["def (", "\0", "-" * 50_000 + "1", "from . import x", "from .... import x"])
def test_a_source_that_cannot_be_followed_has_a_hash_all_the_same(root: Path, source: str) -> None:
    assert families_sha256(root, iteration(root, source)) == families_sha256(root, iteration(root, ""))


def test_while_nothing_changes_shared_imports_are_followed_once(root: Path) -> None:
    one, other = iteration(root), root / "tuning" / "iter002_other.py"
    other.write_text("from kernels import unrelated\n")
    expected = [families_sha256(root, each) for each in (one, other)]
    with reading():
        assert [families_sha256(root, each) for each in (one, other)] == expected
        (root / "kernels/common.py").write_text("CHANGED = 1\n")
        assert families_sha256(root, one) == expected[0]  # not followed again
    assert families_sha256(root, one) != expected[0]


def test_moving_code_between_files_changes_the_hash(root: Path) -> None:
    path = iteration(root)
    (root / "kernels/common.py").write_text("A = 1\n")
    before = families_sha256(root, path)
    (root / "kernels/common.py").write_text("")
    (root / "kernels/gemm/operands.py").write_text("A = 1\n" + FILES["kernels/gemm/operands.py"])
    assert families_sha256(root, path) != before


JUDGING = [
    "harness/judge/judge.py", "harness/judge/facts/operator.py", "harness/operators/matmul.py",
    "harness/operators/products.py", "baselines/torch_matmul.py", "baselines/common.py", "baselines/interface.py",
]  # fmt: skip


@pytest.mark.parametrize("name", [name for name in FILES if not name.startswith("kernels/")])
def test_the_judges_hash_covers_what_decides_an_operators_verdicts_and_nothing_else(root: Path, name: str) -> None:
    before = judge_sha256(root, "matmul", H200)
    (root / name).write_text(FILES[name] + "changed = 1\n")
    judge_sha256.cache_clear()
    assert (judge_sha256(root, "matmul", H200) != before) == (name in JUDGING)


@pytest.mark.parametrize(
    ("change", "decides"),
    [({"bf16_tflops": 900}, True), ({"bandwidth_gbs": 4000}, True), ({"l2_mib": 60}, True), ({"name": "H200"}, False)],
)
def test_the_judges_hash_covers_the_gpus_row(root: Path, change: dict[str, Any], decides: bool) -> None:
    changed = msgspec.structs.replace(H200, **change)
    assert (judge_sha256(root, "matmul", changed) != judge_sha256(root, "matmul", H200)) == decides


def test_each_operator_has_a_judge_of_its_own() -> None:
    assert len({judge_sha256(ROOT, operator, H200) for operator in OPERATORS}) == len(OPERATORS)


WORDED = (
    '"""What it is."""\n\n\ndef half(x):\n    """Half of it."""\n    # Why.\n    return f"{x}#" or x / 2  # quick\n'
    'TEXT = """one\n\n# two\n"""\n'
)


@pytest.mark.parametrize(
    ("text", "decides"),
    [
        (WORDED.replace("What it is", "It is,\nin two lines"), False),
        (WORDED.replace("Half of it", "A half"), False),
        (WORDED.replace("    # Why.\n", "").replace("  # quick", ""), False),
        (WORDED.replace("\n\n\n", "\n"), False),
        (WORDED.replace("x / 2", "x / 3"), True),
        (WORDED.replace("one\n\n", "one\n"), True),
        (WORDED.replace("# two", "# three"), True),
        (WORDED.replace("}#", "}"), True),
        (WORDED.replace("return", "'no docstring'; return"), True),
    ],
)
def test_words_about_the_judges_code_are_not_in_its_hash(root: Path, text: str, decides: bool) -> None:
    judge = root / "harness/judge/judge.py"
    judge.write_text(WORDED)
    before = judge_as_it_is(root, "matmul", H200)
    judge.write_text(text)
    assert (judge_as_it_is(root, "matmul", H200) != before) == decides


def test_an_amended_judge_keeps_its_hash_until_it_changes_again(root: Path) -> None:
    amendment = Amendment("1234", "wider limits", {judge_as_it_is(root, "matmul", H200): "what it was"})
    (root / AMENDED).write_bytes(msgspec.json.encode(amendment))
    assert judge_sha256.__wrapped__(root, "matmul", H200) == "what it was"
    (root / "harness/judge/judge.py").write_text("x = 1\n")
    assert judge_sha256.__wrapped__(root, "matmul", H200) == judge_as_it_is(root, "matmul", H200)


def test_an_amendment_speaks_for_the_judge_as_it_is() -> None:
    """One that a later change has voided is deleted, and the next is written by .ci/amend.py."""
    if (ROOT / AMENDED).is_file():
        amended = msgspec.json.decode((ROOT / AMENDED).read_bytes(), type=Amendment)
        present = {judge_as_it_is(ROOT, name, gpus.find(key)) for name in OPERATORS for key in ("cpu", "h100", "h200")}
        assert amended.same.keys() <= present
