"""freshen on real CUDA builds, without a GPU: a family that changes a kernel's text, and one that changes its code."""

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import msgspec
import pytest

from harness.catalog import gpus
from harness.judge.facts.hashes import families_sha256, judge_sha256, source_sha256
from harness.machine.git import git
from harness.records.same_code import SameCode
from harness.records.store import append, read
from tests.harness.checkout import MODEL, NEEDS_NVCC, SAMPLES, Checkout
from tests.harness.examples import ENVIRONMENT, measurement, record

SHAPE = "matmul_bf16fp32_1024x1024x1024"
GPU = "h200"
ITERATION = '''"""The stock kernel, from a family."""

from kernels.stock import stock

PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=128, block_N=128, block_K=32, num_stages=2, threads=128)


def build(problem):
    return stock(problem, **CONFIG)
'''


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    """A committed family, and a row of it that was measured."""
    made = Checkout.create(tmp_path / "checkout")
    stock = (SAMPLES / "cuda/stock.py").read_text()
    family(made).write_text(f"import tilelang.language as T\n\n\n{stock[stock.index('def stock') :]}")
    git(made.root, "init", "--quiet")
    git(made.root, "add", "kernels")
    git(made.root, "-c", "user.name=me", "-c", "user.email=me@here", "commit", "--quiet", "-m", "A family")
    made.write("iter000_torch_matmul", (SAMPLES / "good/torch_matmul.py").read_text(), SHAPE, gpu=GPU)
    measured(made, made.write("iter001_stock", ITERATION, SHAPE, gpu=GPU))
    yield made
    made.end()


def family(checkout: Checkout) -> Path:
    return checkout.root / "kernels" / "stock.py"


def measured(checkout: Checkout, path: Path, families: str | None = None) -> None:
    """Record the row as if a GPU had measured it with the families of now, or with others."""
    judge = judge_sha256(checkout.root, "matmul", gpus.find(GPU))
    made = record(
        gpu=GPU,
        shape_key=SHAPE,
        model=MODEL,
        iteration=path.stem,
        number=1,
        source_sha256=source_sha256(path),
        families_sha256=families or families_sha256(checkout.root, path),
        environment=msgspec.structs.replace(ENVIRONMENT, gpu=GPU, judge_sha256=judge, tilelang=version("tilelang")),
        measurement=measurement(1.0, 1.1),
    )
    append(checkout.tree.records(GPU, SHAPE, MODEL), made)


def stale(checkout: Checkout) -> list[str]:
    (row,) = (each for each in checkout.json("leaderboard", "--gpu", GPU) if each["iteration"] == "iter001_stock")
    return list(row["stale"])


@pytest.mark.slow
@NEEDS_NVCC
def test_a_row_is_fresh_again_where_the_family_gives_the_same_code(checkout: Checkout) -> None:
    assert stale(checkout) == []
    changed = f"# How a block multiplies its tile.\n{family(checkout).read_text()}"
    family(checkout).write_text(changed)
    assert stale(checkout) == ["family"]
    (found,) = checkout.json("freshen", "--gpu", GPU)
    assert (found["iteration"], found["outcome"], found["reason"]) == ("iter001_stock", "same", None)
    assert stale(checkout) == []
    (kept,), problems = read(checkout.tree.same_code(GPU, SHAPE, MODEL), SameCode)
    assert problems == []
    assert kept.before_sha256 != kept.after_sha256
    assert checkout.json("freshen", "--gpu", GPU) == []
    family(checkout).write_text(changed.replace("threads=threads", "threads=2 * threads"))
    (found,) = checkout.json("freshen", "--gpu", GPU)
    assert found["outcome"] == "different"
    assert stale(checkout) == ["family"]


@pytest.mark.slow
@NEEDS_NVCC
def test_a_row_stays_stale_where_no_commit_has_its_families(checkout: Checkout) -> None:
    checkout.tree.records(GPU, SHAPE, MODEL).unlink()
    measured(checkout, checkout.folder(SHAPE, gpu=GPU) / "iter001_stock.py", families="0" * 64)
    (found,) = checkout.json("freshen", "--gpu", GPU)
    assert found["outcome"] == "lost"
    assert "no commit has the families" in found["reason"]
    assert stale(checkout) == ["family"]


@pytest.mark.slow
def test_a_cpu_has_no_machine_code_to_compare(checkout: Checkout) -> None:
    assert checkout.run("freshen", "--gpu", "cpu").returncode == 2
