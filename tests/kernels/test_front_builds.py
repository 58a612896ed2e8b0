"""What the front takes on GPUs compiles for them, to kernels that fit and spill no more than what was measured.

It needs nvcc, and no GPU. A default was not measured on its shape, so it spills nothing.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from harness.boards.reproduction import find_record
from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.evidence import evidence, toolchain
from harness.judge.child.kernel import build_kernel
from harness.judge.facts.problem import parse_shape_key
from harness.records.results import Record
from kernels.front import launches
from kernels.front.defaults import UNMEASURED, default
from kernels.front.pinned import publication
from kernels.front.places import Place
from tests.harness.checkout import ROOT
from tests.lanes import few

WINNERS = [(key, shape_key) for key in ("h200",) for shape_key in publication(key).winners]
# Of several sizes and 16-bit types with one operator and one set of levers, the last.
UNLIKE = {
    (shape.partition("_")[0], each.family, str(each.levers)): shape
    for shape, each in publication("h200").winners.items()
}
DEFAULTS = [
    ("h200", "linear_bf16fp32_3212x4968x512"),
    ("h200", "matmul_fp16fp32_8192x8192x512"),
    ("h200", "linear_bf16fp32_1536x32768x512"),
    ("h200", "attention_bf16fp32_2x16x16x512x64x64"),
    ("h200", "attention_bf16fp32_2x16x16x2048x256x256"),
    ("a100", "matmul_bf16fp32_4096x4096x4096"),
    ("rtx4090", "linear_fp16fp32_4096x4096x4096"),
    ("b200", "matmul_bf16fp32_8192x8192x8192"),
]
CHOSEN = [
    ("h200", "matmul_bf16fp32_4096x4096x4096"),
    ("a100", "matmul_bf16fp32_4096x4096x4096"),
    ("b200", "matmul_bf16fp32_8192x8192x8192"),
]

pytestmark = [
    pytest.mark.skipif(toolchain.find().nvcc is None, reason="there is no nvcc; make build installs one"),
]


def where(key: str) -> Place:
    gpu = gpus.find(key)
    assert gpu.sms is not None
    return Place(torch.device("cuda", 0), key, gpu.arch, gpu.sms)


def spilled(key: str, shape_key: str) -> int:
    """Bytes that a thread of the published winner stored to local memory when it was measured; 0 for a default."""
    if (key, shape_key) not in WINNERS:
        return 0
    record = find_record(Tree(ROOT), publication(key).winners[shape_key].record)
    assert isinstance(record, Record) and record.build is not None
    return max(each.spill_store_bytes or 0 for each in record.build.kernels or ())


@pytest.mark.parametrize(
    ("key", "shape_key"), few([*(("h200", shape) for shape in UNLIKE.values()), *DEFAULTS], *CHOSEN)
)
def test_it_compiles_and_fits(key: str, shape_key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(UNMEASURED, "1")
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")  # what comes from the cache says nothing of registers
    problem, gpu, place = parse_shape_key(shape_key), gpus.find(key), where(key)
    chosen = launches.choose(problem, place)
    assert chosen.family is not None
    assert ((key, shape_key) in WINNERS) == (chosen != default(problem, place))
    kernel = build_kernel(chosen.program, problem, gpu, place.device)
    assert kernel.signature == problem.tensors
    cuobjdump = toolchain.find().cuobjdump
    built = evidence.examine(kernel.compilation, problem, gpu, 0.0, cuobjdump.path if cuobjdump else None)
    assert built.kernels is not None
    assert len(built.kernels) == 1 or len(problem.outputs) > 1
    for each in built.kernels:  # several of attention's gradients
        assert each.spill_store_bytes is not None and each.spill_store_bytes <= spilled(key, shape_key)
        assert each.blocks_per_sm is not None and each.blocks_per_sm >= 1
    told = [each.instructions for each in built.kernels if each.instructions is not None]
    if gpu.arch == "sm_90a" and told:
        assert any("GMMA" in name for instructions in told for name in instructions)


@pytest.mark.slow
def test_the_launch_is_made_as_far_as_a_device_is_not_needed(tmp_path: Path) -> None:
    """Compiled now, and by another process from what this one left on the disk: TileLang loads another type then."""
    script = (
        "from harness.judge.facts.problem import parse_shape_key; from kernels.front import launches\n"
        "from tests.kernels.test_front_builds import where\n"
        "problem, place = parse_shape_key('matmul_bf16fp32_1024x1024x1024'), where('h200')\n"
        "assert callable(launches._compiled(problem, launches.choose(problem, place), place))"
    )
    environment = os.environ | {"TILELANG_CACHE_DIR": str(tmp_path), "TILELANG_TMP_DIR": str(tmp_path / "tmp")}
    for _ in range(2):
        subprocess.run([sys.executable, "-c", script], env=environment, check=True, timeout=240)
    assert list(tmp_path.rglob("*.so")) or list(tmp_path.rglob("*.o"))
