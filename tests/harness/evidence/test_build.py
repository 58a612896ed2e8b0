"""harness build on real CUDA kernels, without a GPU: evidence, refusals, attempts, and what is not repeated."""

import importlib.util
import re
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.catalog import gpus
from harness.evidence import toolchain
from harness.judge.facts.problem import parse_shape_key
from harness.records.builds import BuildRecord
from harness.records.store import read
from tests.harness.checkout import MODEL, NEEDS_NVCC, SAMPLES, Checkout, one_line
from tests.harness.envelopes import answer

SHAPE = "matmul_bf16fp32_1024x1024x1024"
SOUND = ("stock", "eager_jit", "spills", "bank_conflicts")
# Sample -> cause, and what the reason must say.
REFUSED = {
    "too_much_shared_memory": ("does_not_fit", "263,168 bytes of shared memory, sm_90a has 232,448 for a block"),
    "too_many_threads": ("does_not_fit", "threads a block, 1,024 at most"),
    "no_warp_partition": ("compile", "M must be divisible by 16, but got 24"),
    "block_k_of_24": ("compile", r"block_K \(24\) must be a multiple of micro_size_k \(16\)"),
    "eager_jit_fails": ("compile", "M must be divisible by 16, but got 24"),
}
WARNED = {
    "spills": (r"spills: [0-9,]+ bytes of stores", "ptxas: Potential Performance Loss: wgmma"),
    "bank_conflicts": ("bank conflicts: 32-way, in tile", "no tensor core instruction"),
    "eager_jit": ("narrow WGMMA: 64x64x16",),
    "stock": ("idle SMs: 64 blocks for 132 SMs",),
}

pytestmark = [
    NEEDS_NVCC,
]
needs_disassembler = pytest.mark.skipif(toolchain.find().cuobjdump is None, reason="there is no cuobjdump here")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    made = Checkout.create(tmp_path_factory.mktemp("build") / "checkout")
    made.write("iter000_torch_matmul", (SAMPLES / "good/torch_matmul.py").read_text(), SHAPE, gpu="h200")
    for number, name in enumerate((*SOUND, *REFUSED), start=1):
        source = (SAMPLES / f"cuda/{name}.py").read_text()
        made.write(f"iter{number:03d}_{name}", source, SHAPE, gpu="h200")
    yield made
    made.end()


@pytest.fixture(scope="module")
def done(checkout: Checkout) -> subprocess.CompletedProcess[str]:
    return checkout.run("build", "--gpu", "h200", "--json")


@pytest.fixture(scope="module")
def rows(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    return by_name(done)


def by_name(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.stdout, done.stderr
    return {row["iteration"].partition("_")[2]: row for row in answer(done.stdout)["records"]}


def records(checkout: Checkout) -> list[BuildRecord]:
    found, problems = read(checkout.tree.builds("h200", SHAPE, MODEL), BuildRecord)
    assert problems == []
    return found


def test_every_sample_has_its_case() -> None:
    assert {*SOUND, *REFUSED} == {path.stem for path in (SAMPLES / "cuda").glob("*.py")}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_work_is_refused_in_words_and_becomes_an_attempt(rows: dict[str, Any], name: str) -> None:
    cause, says = REFUSED[name]
    row = rows[name]
    assert (row["status"], row["cause"]) == ("failed", cause)
    assert re.search(says, row["reason"])
    assert re.search(r"\(attempt000[1-5]; 4 of 5 attempts left for iter00[0-9]\)$", row["reason"])
    assert row["attempt"] in row["reason"]


@needs_disassembler
def test_the_stock_kernel_shows_all_its_figures(rows: dict[str, Any]) -> None:
    row = rows["stock"]
    assert row["status"] == "passed"
    assert row["spill_bytes"] == 0
    assert 0 < row["registers"] <= 255
    assert row["static_shared_bytes"] + row["dynamic_shared_bytes"] == row["shared_bytes"]
    assert row["dynamic_shared_bytes"] == 2 * (128 * 32 + 32 * 128) * 2  # two stages of A and B
    assert row["shared_limit_bytes"] == 232_448
    assert row["grid"] == [8, 8, 1]
    assert row["threads"] == 256  # the compiler adds a warp group that loads
    assert row["blocks_per_sm"] == 1
    assert list(row["instructions"]) == ["HGMMA.64x128x16.F32.BF16"]
    assert row["tma_loads"] > 0 == row["tma_stores"]
    assert row["source_bytes"] > 1000 < row["cubin_bytes"]
    assert row["seconds"] > 0


@needs_disassembler
@pytest.mark.parametrize("name", WARNED)
def test_what_will_be_slow_is_said(rows: dict[str, Any], name: str) -> None:
    assert rows[name]["status"] == "passed"
    for says in WARNED[name]:
        assert any(re.match(says, warning) for warning in rows[name]["warnings"]), rows[name]["warnings"]


def test_a_library_call_has_no_evidence(rows: dict[str, Any]) -> None:
    row = rows["torch_matmul"]
    assert row["status"] == "passed"
    assert row["registers"] is row["instructions"] is row["source_bytes"] is None


def test_nothing_is_compiled_again_and_no_attempt_taken_again(checkout: Checkout, rows: dict[str, Any]) -> None:
    before = records(checkout)
    assert len(before) == len(rows)
    # no process could even start
    again = checkout.run(
        "build",
        "--gpu",
        "h200",
        "--json",
        settings="import harness.judge.processes; harness.judge.processes.Worker.__init__ = None",
    )
    assert by_name(again) == rows
    assert again.returncode == 1
    assert records(checkout) == before


@pytest.mark.usefixtures("rows")
def test_the_table_is_for_people(checkout: Checkout) -> None:
    done = checkout.run("build", "--gpu", "h200")
    header = next(line for line in done.stdout.splitlines() if line.startswith("iteration"))
    assert header.split() == [
        *("iteration", "registers", "spills", "shared", "of", "blocks/SM", "threads", "blocks"),
        *("instructions", "TMA", "source", "cubin", "s"),
    ]
    assert any(line.startswith("iter001_stock: idle SMs") for line in done.stdout.splitlines())
    assert done.stdout.splitlines()[-1] == "5 of 10 passed, 10 of them recorded before"


def test_without_nvcc_it_is_the_machine_that_is_in_the_way(checkout: Checkout) -> None:
    missing = "from harness.evidence import toolchain; toolchain.find = lambda: toolchain.Toolchain(None, None, 'g++')"
    done = checkout.run("build", "--gpu", "h200", settings=missing)
    assert done.returncode == 3
    assert "no nvcc" in one_line(done.stderr)
    assert "-m pip install 'tilebench-harness[build]'" in one_line(done.stderr)  # this tree has no Makefile


@needs_disassembler
@pytest.mark.parametrize(
    ("key", "instruction", "loads"),
    [("a100", "HMMA.16816.F32.BF16", "cp_async"), ("l40s", "HMMA.16816.F32.BF16", "cp_async"),
     ("b200", "HMMA.16816.F32.BF16", "tma_loads")],
)  # fmt: skip
@pytest.mark.slow
def test_the_stock_kernel_builds_for_other_architectures(key: str, instruction: str, loads: str) -> None:
    import tilelang
    import torch

    from harness.evidence import evidence
    from harness.judge.child.kernel import build_kernel

    tilelang.disable_cache()  # as a contestant does: what is not compiled cannot be watched
    gpu, problem = gpus.find(key), parse_shape_key(SHAPE)
    tilelang.disable_cache()  # as a contestant does: what comes from the cache was not compiled
    try:
        kernel = build_kernel(sample("stock"), problem, gpu, torch.device("cuda"))
    finally:
        tilelang.enable_cache()
    cuobjdump = toolchain.find().cuobjdump
    assert cuobjdump is not None
    found = evidence.examine(kernel.compilation, problem, gpu, 1.0, cuobjdump.path)
    assert found.kernels is not None
    (only,) = found.kernels
    assert only.instructions is not None
    assert list(only.instructions) == [instruction]
    assert getattr(only, loads) > 0
    assert only.registers
    assert only.blocks_per_sm


def sample(name: str) -> Callable[[Any], object]:
    """The ``build`` of a sample."""
    spec = importlib.util.spec_from_file_location(name, SAMPLES / f"cuda/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    build: Callable[[Any], object] = module.build
    return build
