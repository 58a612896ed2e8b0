"""The hashes that say whether a result still holds follow what an iteration stands on, and nothing else."""

from pathlib import Path

import pytest

from harness import gpus
from harness.environment import describe, families_sha256, judge_sha256, source_sha256
from harness.nvml import Device
from harness.tree import Tree

H200 = Device(0, "NVIDIA H200", "GPU-1", "570.1", 700.0)
FILES = {
    "kernels/__init__.py": "",
    "kernels/gemm/__init__.py": "from kernels.gemm.pipelined import pipelined\n",
    "kernels/gemm/pipelined.py": "from . import operands\nfrom .deep.tiles import TILE\n",
    "kernels/gemm/operands.py": "import kernels.common\n",
    "kernels/gemm/deep/__init__.py": "",
    "kernels/gemm/deep/tiles.py": "from ..raster import order\n",
    "kernels/gemm/raster.py": "from kernels.gemm import pipelined\n",  # a circle
    "kernels/common.py": "",
    "kernels/unrelated.py": "",
    "baselines/__init__.py": "",
    "harness/judge/judge.py": "",
    "harness/operators/matmul.py": "",
    "harness/plausible.py": "",
    "harness/problem.py": "",
    "harness/tables.py": "",
}
FOLLOWED = [path for path in FILES if path.startswith("kernels/") and "unrelated" not in path]


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
    (root / name).write_text(FILES[name] + "# changed\n")
    return families_sha256(root, path) != before


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_change_anywhere_below_an_import_changes_the_hash(root: Path, name: str) -> None:
    assert changes(root, iteration(root), name)


@pytest.mark.parametrize("name", ["kernels/unrelated.py", "baselines/__init__.py", "harness/tables.py"])
def test_a_change_of_what_is_not_imported_does_not(root: Path, name: str) -> None:
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


def test_the_baseline_stands_on_baselines(root: Path) -> None:
    assert changes(root, iteration(root, "from baselines import library"), "baselines/__init__.py")


def test_the_iterations_own_source_is_not_in_the_hash_of_its_families(root: Path) -> None:
    path = iteration(root)
    families, source = families_sha256(root, path), source_sha256(path)
    path.write_text(path.read_text() + "# changed\n")
    assert families_sha256(root, path) == families
    assert source_sha256(path) != source


@pytest.mark.parametrize("source", ["def (", "\0", "-" * 50_000 + "1", "from . import x", "from .... import x"])
def test_a_source_that_cannot_be_followed_has_a_hash_all_the_same(root: Path, source: str) -> None:
    assert families_sha256(root, iteration(root, source)) == families_sha256(root, iteration(root, ""))


def test_moving_code_between_files_changes_the_hash(root: Path) -> None:
    path = iteration(root)
    (root / "kernels/common.py").write_text("A = 1\n")
    before = families_sha256(root, path)
    (root / "kernels/common.py").write_text("")
    (root / "kernels/gemm/operands.py").write_text("A = 1\n" + FILES["kernels/gemm/operands.py"])
    assert families_sha256(root, path) != before


@pytest.mark.parametrize(
    "name", ["harness/judge/judge.py", "harness/operators/matmul.py", "harness/plausible.py", "baselines/__init__.py"]
)
def test_the_judges_hash_covers_what_decides_a_verdict(root: Path, name: str) -> None:
    before = judge_sha256(root)
    (root / name).write_text("# changed\n")
    judge_sha256.cache_clear()
    assert judge_sha256(root) != before


def test_the_judges_hash_does_not_cover_the_rest(root: Path) -> None:
    before = judge_sha256(root)
    (root / "harness/tables.py").write_text("# changed\n")
    judge_sha256.cache_clear()
    assert judge_sha256(root) == before


def test_a_cpu_is_described_by_its_own_name(root: Path) -> None:
    found = describe(root, gpus.find("cpu"), None)
    assert found.gpu == "cpu"
    assert found.device
    assert not found.forced
    assert found.torch != "none"
    assert found.tilelang == "0.1.15"


def test_a_gpu_is_described_as_the_driver_names_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEBENCH_IMAGE", "sha256:1")
    found = describe(root, gpus.find("h200"), H200)
    assert (found.device, found.device_uuid, found.driver) == ("NVIDIA H200", "GPU-1", "570.1")
    assert found.image == "sha256:1"
    assert not found.forced


def test_a_key_that_is_not_the_devices_is_marked_and_not_ranked_with_others(root: Path) -> None:
    forced, honest = (describe(root, gpus.find(key), H200) for key in ("h100", "h200"))
    assert forced.forced
    assert forced.rank_key != honest.rank_key
    assert "forced as h100" in forced.line()
