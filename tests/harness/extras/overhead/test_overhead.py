"""Host time per call: the ways, the figures on a CPU, and the GPU kernels up to lowering."""

import pytest
import tilelang
import torch
from tilelang import tvm

from harness.catalog import gpus
from harness.extras.overhead import front
from harness.extras.overhead.kernels import addition
from harness.extras.overhead.measure import table
from harness.extras.overhead.ways import BACKENDS, LENGTH, SPELLINGS, TORCH, HostTime, ways
from harness.judge.child.kernel import target_of
from tests.harness.checkout import Checkout
from tests.harness.envelopes import answer


def test_every_spelling_goes_with_every_backend() -> None:
    asked = {(way.spelling, way.backend) for way in ways()}
    assert {(spelling, backend) for spelling in SPELLINGS for backend in BACKENDS} <= asked
    assert ways()[0].spelling == TORCH


def test_the_table_says_why_a_figure_lacks() -> None:
    figures = [
        HostTime("kernels.matmul", "", "", 2.0, 0.1, 4.0, None, 1234.5),
        HostTime("tilelang.compile", "auto", "cython", 8.0, 0.1, 1.0),
        HostTime("tilelang.compile", "nvrtc", reason="not here"),
    ]
    _, _, ours, first, second = table(figures).splitlines()
    assert "0.50" in ours.split() and "first call 1234 ms" in ours
    assert "auto: cython" in first and "8.00" in first.split()
    assert "not here" in second


def test_the_kernels_for_a_gpu_lower_without_one() -> None:
    target, (lazy, eager) = target_of(gpus.find("h200")), addition(cpu=False)
    with target:
        artifact = tilelang.lower(lazy(LENGTH), target=target)
    assert "__global__" in artifact.kernel_source
    eager = tilelang.jit(target=target)(eager)
    tensors = [torch.empty(LENGTH, device="meta") for _ in range(3)]
    with target:
        assert isinstance(eager.get_tir(*tensors), tvm.tirx.PrimFunc)


@pytest.mark.slow
def test_on_a_cpu_the_order_is_what_it_must_be(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The order by functions called, which is the same in each run; a real clock's depends on what else runs."""
    made = Checkout.create(tmp_path_factory.mktemp("overhead") / "checkout")
    for name in ("ways", "front"):
        path = made.root / f"harness/extras/overhead/{name}.py"
        clock = "from tests.harness.extras.overhead import call_clock as time"
        assert path.read_text().count("\nimport time\n") == 1
        path.write_text(path.read_text().replace("import time\n", f"{clock}\n"))
    try:
        done = made.run("overhead", "--gpu", "cpu", "--json")
        assert done.returncode == 0, done.stderr
        figures = {(each["spelling"], each["requested"]): each for each in answer(done.stdout)}
        torch_us = figures[TORCH, ""]["us"]
        compiled_us = figures["tilelang.compile", "cython"]["us"]
        eager_us = figures["eager @tilelang.jit", "cython"]["us"]
        lazy_us = figures["lazy @tilelang.jit", "cython"]["us"]
        assert 0 < torch_us < compiled_us < lazy_us < eager_us
        assert "Invalid execution backend 'nvrtc'" in figures["tilelang.compile", "nvrtc"]["reason"]
        assert figures["tilelang.compile", "auto"]["backend"] == "cython"
        into, returning, linear = (figures[spelling, ""] for spelling in front.SPELLINGS)
        assert linear["reason"] is None
        assert torch_us < min(into["us"], returning["us"]) and max(into["us"], returning["us"]) < eager_us
        assert min(into["first_ms"], linear["first_ms"]) > returning["first_ms"] > 0  # the latter from the disk
        assert not made.leftovers()
    finally:
        made.end()
