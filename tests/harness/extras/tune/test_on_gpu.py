"""Both engines on the GPU of this machine, over a small space."""

from collections.abc import Iterator

import pytest

from harness.catalog.gpus import detect, find
from harness.extras.tune.record import Pick, TuningTrial, picks_path, trials_path
from harness.records.base import Status
from harness.records.store import read
from tests.harness.checkout import Checkout
from tests.harness.extras.tune.test_end_to_end import set_space

SHAPE = "matmul_bf16fp32_2048x2048x2048"
# The second is slow, and the third leaves its tensor cores idle for want of stages; the last does not fit.
SPACE = """[
    dict(block_M=128, block_N=256, block_K=64, num_stages=3, threads=256),
    dict(block_M=64, block_N=64, block_K=32, num_stages=2, threads=128),
    dict(block_M=128, block_N=128, block_K=64, num_stages=1, threads=128),
    dict(block_M=256, block_N=256, block_K=128, num_stages=5, threads=512),
]"""

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
]


@pytest.fixture
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    made = Checkout.create(tmp_path_factory.mktemp("tune-gpu") / "checkout")
    set_space(made, "gemm/pipelined", SPACE)
    yield made
    made.end()


def test_both_engines_pin_a_pick(checkout: Checkout) -> None:
    key = detect()
    if find(key).arch != "sm_90a":
        pytest.skip(f"the space is for Hopper, and this is {key}")
    choice = ("--gpu", key, "--shape", SHAPE, "--family", "pipelined", "--no-carver", "--model")
    for engine in ("tilebench", "tilelang"):
        done = checkout.run("tune", *choice, engine, "--engine", engine, seconds=280)
        assert done.returncode == 0, done.stderr
        (pick,) = read(picks_path(checkout.tree, key, SHAPE, engine), Pick)[0]
        assert (pick.candidates, pick.refused, pick.failed) == (3, 1, 0)
        assert pick.config["block_N"] == 256
        trials = read(trials_path(checkout.tree, key, SHAPE, engine), TuningTrial)[0]
        assert all(trial.status is Status.PASSED for trial in trials)
        done = checkout.run("verify", "--gpu", key, "--shape", SHAPE, "--model", engine, "--iter", pick.iteration)
        assert done.returncode == 0, done.stderr
