"""versus on real CUDA kernels, without a GPU: the same TileLang in two environments, and what is kept of it."""

import subprocess
from collections.abc import Iterator

import pytest

from tests.harness.checkout import NEEDS_NVCC, SAMPLES, Checkout, one_line
from tests.harness.envelopes import answer
from tests.harness.extras.versus.index import wheel

SHAPE = "matmul_bf16fp32_1024x1024x1024"

pytestmark = [
    pytest.mark.slow,
    NEEDS_NVCC,
]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """Two samples, in a tree beside a wheel that makes another environment."""
    made = Checkout.create(tmp_path_factory.mktemp("versus") / "checkout")
    made.write("iter000_torch_matmul", (SAMPLES / "good/torch_matmul.py").read_text(), SHAPE, gpu="h200")
    for number, name in enumerate(("stock", "no_warp_partition"), start=1):
        made.write(f"iter{number:03d}_{name}", (SAMPLES / f"cuda/{name}.py").read_text(), SHAPE, gpu="h200")
    yield made
    made.end()


def versus(checkout: Checkout, *words: str) -> subprocess.CompletedProcess[str]:
    old = checkout.root / "tabulate-0.0.1-py3-none-any.whl"
    if not old.exists():
        wheel(checkout.root, "0.0.1")
    return checkout.run("versus", "--old", str(old), "--build-only", "--gpu", "h200", *words)


def test_the_same_tilelang_gives_the_same_code_and_is_built_once(checkout: Checkout) -> None:
    first = answer(versus(checkout, "--all", "--json").stdout)
    verdicts = {row["iteration"]: row["verdict"] for row in first["rows"]}
    assert verdicts == {"iter001_stock": "same", "iter002_no_warp_partition": "fails"}
    same, fails = first["rows"]
    assert same["old"]["code_sha256"] == same["new"]["code_sha256"] is not None
    (kernel,) = same["new"]["kernels"]
    assert kernel["registers"] > 32
    assert kernel["shared_bytes"] > 1024
    assert any("M must be divisible by 16, but got 24" in note for note in fails["notes"])
    assert first["built"] == 6  # a failure is built twice
    again = answer(versus(checkout, "--all", "--json").stdout)
    assert again["built"] == 0
    assert again["rows"] == first["rows"]


def test_a_cpu_has_no_code_to_compare(checkout: Checkout) -> None:
    done = checkout.run("versus", "--old", ".", "--build-only", "--gpu", "cpu")
    assert done.returncode == 2
    assert "compares code for GPUs" in one_line(done.stderr)


BENCHMARK = """
import torch
import tilelang
import tilelang.language as T
from tilelang.profiler import do_bench

@tilelang.jit(out_idx=[1])
def scaled(n):
    @T.prim_func
    def main(A: T.Tensor((n,), T.float32), B: T.Tensor((n,), T.float32)):
        with T.Kernel(n // 128, threads=128) as block:
            for i in T.Parallel(128):
                B[block * 128 + i] = A[block * 128 + i] * 2
    return main

def regression_scaled():
    kernel = scaled(4096)
    a = torch.randn(4096, device="cuda")
    torch.testing.assert_close(kernel(a), a * 2)
    return do_bench(lambda: kernel(a), backend="cupti")

def regression_lacking():
    import a_package_that_is_not_there
"""


def test_benchmarks_of_another_tree_are_rows_too(checkout: Checkout) -> None:
    elsewhere = checkout.root / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "regression_scaled.py").write_text(BENCHMARK)
    found = answer(versus(checkout, "--benchmarks", str(elsewhere), "--json").stdout)
    scaled, lacking = found["rows"]
    assert (scaled["problem"], scaled["iteration"], scaled["verdict"]) == (
        "regression_scaled",
        "regression_scaled",
        "same",
    )
    assert scaled["new"]["kernels"][0]["registers"] > 0
    assert lacking["verdict"] == "fails"
    assert "No module named 'a_package_that_is_not_there'" in lacking["notes"][0]
