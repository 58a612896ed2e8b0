"""A memory-bound problem is measured beside a copy of as many bytes, in the same run, and held against it."""

from collections.abc import Iterator

import pytest

from harness.catalog import gpus
from harness.judge.facts.problem import parse_shape_key
from harness.runs import copy_bandwidth
from tests.harness.checkout import BASELINE, BUDGET, Checkout

ADD = "add_f32fp32_65536"
COPY = "copy_f32fp32_96x1024"
KERNEL = '''"""A kernel of dynamic length {says}."""

import tilelang
import tilelang.cpu.language as T

PARENT = "iter000_torch_add"
CONFIG = dict(block_N=4096)


@tilelang.jit(target="c", compile_flags=["-O2"])
def add(block_N):
    N = T.dynamic("N")

    @T.prim_func
    def kernel(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32"), Z: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block_N)) as bn:
            for i in T.serial(T.min(block_N, N - bn * block_N)):
                Z[bn * block_N + i] = X[bn * block_N + i] + {term}

    return kernel


def build(problem):
    kernel = add(CONFIG["block_N"])
    return lambda x, y, z: kernel(x, y, z)
'''


@pytest.mark.parametrize(
    ("gpu", "key", "bound"),
    [
        ("h200", "linear_bf16fp32_64x8192x8192", True),
        ("h200", "matmul_bf16fp32_4096x4096x4096", False),
        ("h200", ADD, True),
        ("cpu", ADD, True),  # nothing is claimed of a CPU: fewer flops than bytes
        ("cpu", "matmul_f32fp32_256x256x256", False),
    ],
)
def test_what_is_memory_bound(gpu: str, key: str, bound: bool) -> None:
    assert gpus.find(gpu).is_memory_bound(parse_shape_key(key)) == bound


@pytest.mark.parametrize(
    "key",
    [
        *(ADD, "linear_bf16fp32_64x8192x8192", "contiguous_f32fp32_320x320", "add_f32fp32_8"),
        *("topk_f32fp32_64x1024x8", "linear_e4m3fp32bf16_64x8192x8192"),
    ],
)
def test_the_companion_moves_as_many_bytes_to_a_row(key: str) -> None:
    problem = parse_shape_key(key)
    copied = copy_bandwidth.companion(problem)
    assert parse_shape_key(copied.shape_key) == copied
    row_bytes = copied.bytes // copied.dims[0]
    assert abs(copied.bytes - problem.bytes) <= row_bytes


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    made = Checkout.create(tmp_path_factory.mktemp("ceiling") / "checkout")
    made.write("iter001_dynamic", KERNEL.format(says="that is right", term="Y[bn * block_N + i]"), ADD)
    made.write("iter002_wrong", KERNEL.format(says="that is wrong", term="X[bn * block_N + i]"), ADD)
    made.write("iter000_torch_add", BASELINE, ADD)
    yield made
    made.end()


@pytest.mark.slow
def test_the_copy_is_measured_in_the_same_run_and_shown(checkout: Checkout) -> None:
    done = checkout.run("bench", "--gpu", "cpu", *BUDGET)
    assert f"{COPY} tester iter000_torch_copy: " in done.stderr
    assert "GB/s" in done.stderr
    (copied,) = checkout.records(COPY)
    added = {record.iteration: record for record in checkout.records(ADD)}
    assert added["iter002_wrong"].cause == "wrong_result"
    assert copied.recorded_at > added["iter001_dynamic"].recorded_at

    rows = {(row["problem"], row["iteration"]): row for row in checkout.json("leaderboard", "--gpu", "cpu")}
    row, beside = rows[ADD, "iter001_dynamic"], rows[COPY, "iter000_torch_copy"]
    assert row["gbs"] == pytest.approx(parse_shape_key(ADD).bytes / row["time_ms"] / 1e6)
    assert row["of_copy"] == pytest.approx(row["gbs"] / beside["gbs"])
    assert rows[ADD, "iter002_wrong"]["of_copy"] is None
    table = " ".join(checkout.run("leaderboard", "--gpu", "cpu", "--shape", ADD).stdout.split())
    assert "memory-bound: a copy of as many bytes reaches" in table
    assert "GB/s, of copy" in table
    assert "FLOPS" not in table

    again = checkout.run("bench", "--gpu", "cpu", *BUDGET)
    assert "(recorded before)" in again.stderr
    assert len(checkout.records(COPY)) == 1, "nothing was measured, so neither was the copy"
