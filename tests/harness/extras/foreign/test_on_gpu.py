"""A typical GPU script: found and lowered on any machine, judged and run by itself on a GPU."""

import ast
import shutil
from pathlib import Path

import pytest
import tilelang

from harness.catalog import gpus
from harness.extras.foreign.calls import KernelNotFound
from harness.extras.foreign.find import found_in
from harness.extras.foreign.record import Basis, ForeignRecord, path_of
from harness.judge.child.contestant import load
from harness.judge.child.kernel import target_of
from harness.judge.facts.problem import parse_shape_key
from harness.records.base import Status
from harness.records.store import read
from tests.harness.checkout import SAMPLES, Checkout

SHAPE = "matmul_bf16fp32_2048x2048x2048"
SCRIPT = SAMPLES / "foreign" / "stock_gpu.py"
UNDECIDED = SCRIPT.read_text().replace("BLOCK_K)\n    start,", "int(str(BLOCK_K)))\n    start,")


def test_its_kernel_is_found_and_lowered_without_a_gpu() -> None:
    target = target_of(gpus.find("h200"))
    program = found_in(load(SCRIPT), ast.parse(SCRIPT.read_text()), parse_shape_key(SHAPE), target)
    assert dict(program.pass_configs) == {"tl.disable_safe_memory_legalize": False}
    with target:
        source = tilelang.lower(program.prim_func, target=target).kernel_source
    assert "wgmma" in source


def test_one_that_decides_when_it_runs_is_not_found() -> None:
    target = target_of(gpus.find("h200"))
    with pytest.raises(KernelNotFound, match="'block_K' is decided when it runs"):
        found_in(load(SCRIPT), ast.parse(UNDECIDED), parse_shape_key(SHAPE), target)


@pytest.mark.gpu
@pytest.mark.slow
def test_a_tree_is_benched_on_the_gpu(tmp_path: Path) -> None:
    checkout, tree = Checkout.create(tmp_path / "checkout"), tmp_path / "theirs"
    folder = tree / "srcs" / SHAPE / "somebody"
    folder.mkdir(parents=True)
    shutil.copyfile(SCRIPT, folder / "iter001_stock.py")
    (folder / "iter002_undecided.py").write_text(UNDECIDED)
    key = gpus.detect()
    done = checkout.run("foreign", str(tree), "--gpu", key, seconds=500)
    assert done.returncode == 0, done.stderr
    found, problems = read(path_of(checkout.tree, key, SHAPE, "somebody"), ForeignRecord)
    judged, said = sorted(found, key=lambda record: record.number)
    assert problems == []
    assert (judged.basis, judged.status) == (Basis.JUDGED, Status.PASSED) and judged.measurement is not None
    assert (said.basis, said.status) == (Basis.SELF_REPORTED, Status.PASSED)
    assert said.said is not None and said.said.passed and said.said.time_ms is not None
    assert 0.2 < said.said.time_ms / judged.measurement.time_ms < 5
    checkout.end()
