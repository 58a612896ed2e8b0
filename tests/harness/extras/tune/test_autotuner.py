"""TileLang's autotuner as the harness drives it: on the CPU, and for an H200 up to the timing."""

import inspect
import re
from pathlib import Path

import pytest
import torch
from tilelang.autotuner import AutoTuner

from harness.catalog import gpus
from harness.evidence import toolchain
from harness.extras.tune import autotuner
from harness.extras.tune.autotuner import AutotunerOptions, AutotunerOrder, Timed
from harness.judge.child.brief import Brief
from harness.judge.child.inputs import inputs
from harness.judge.facts.operator import OUTPUT_SCALE
from harness.judge.facts.problem import parse_shape_key
from harness.judge.messages import Message

ROOT = Path(__file__).resolve().parents[4]
CPU, H200 = gpus.find("cpu"), gpus.find("h200")
SMALL = parse_shape_key("matmul_f32fp32_64x64x64")
LARGE = parse_shape_key("matmul_bf16fp32_512x512x512")
FLAGS = ("-O3", "-march=native")
BLOCKED = {"block_N": 16, "block_K": 64, "vector_width": 8, "compile_flags": FLAGS}


def order(configs: tuple[dict[str, object], ...], **options: object) -> AutotunerOrder:
    brief = Brief(ROOT, SMALL, CPU, None)
    asked = AutotunerOptions(warmup=2, rep=5, cache=False, **options)  # type: ignore[arg-type]
    return AutotunerOrder(brief, "kernels.cpu.register_blocked", "sources", "a CPU", configs, asked, Path())


@pytest.fixture(autouse=True)
def its_log_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_its_levers_are_the_spaces() -> None:
    kernel = autotuner.signed("shape", "family", "sources", "device", [{"a": 1, "pass_configs": {}}, {"a": 2, "b": 3}])
    assert list(inspect.signature(kernel).parameters) == ["a", "b"]


def test_its_cache_tells_problems_sources_and_devices_apart() -> None:
    def key(shape: str = "shape", family: str = "family", sources: str = "sources", device: str = "device") -> object:
        """As AutoTuner.run makes it: from what the function closes over."""
        function = autotuner.signed(shape, family, sources, device, [{"a": 1}])
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        closed = dict(zip(function.__code__.co_freevars, cells, strict=True))
        return AutoTuner.from_kernel(function, [{"a": 1}]).generate_cache_key({}, closed)

    assert key() == key() is not None
    assert len({key(), key(shape="x"), key(family="x"), key(sources="x"), key(device="x")}) == 5


def test_every_configuration_is_told_and_the_fastest_picked() -> None:
    configs = ({"block_M": 8, **BLOCKED}, {"block_M": 1, **BLOCKED, "vector_width": 1, "compile_flags": ()})
    told: list[Message] = []
    picked = autotuner.search(order(configs), told.append)
    assert (picked.index, picked.cached) == (0, False)
    latencies = {each.index: each.latency_ms for each in told if isinstance(each, Timed)}
    assert latencies.keys() == {0, 1}
    assert latencies[0] is not None and latencies[1] is not None and latencies[0] < latencies[1]


@pytest.mark.parametrize("supply", ["inputs", "program", "Normal"])
def test_inputs_come_in_each_of_its_ways(supply: str) -> None:
    picked = autotuner.search(order(({"block_M": 8, **BLOCKED},), supply=supply), lambda message: None)
    assert picked.index == 0 and picked.latency_ms is not None


def test_a_configuration_that_does_not_compile_is_told_with_its_reason() -> None:
    configs = ({"block_M": 8, **BLOCKED}, {"block_M": 4, **BLOCKED, "block_N": 24})
    told: list[Message] = []
    assert autotuner.search(order(configs), told.append).index == 0
    (failed,) = (each for each in told if isinstance(each, Timed) and each.latency_ms is None)
    assert failed.index == 1 and "block_N=24 does not divide" in failed.reason
    assert re.search(r", at kernels/\S+\.py:\d+: ", failed.reason)


def test_inputs_are_scaled_and_workspaces_are_zero() -> None:
    tensors = inputs(parse_shape_key("matmul_f32fp32_256x256x256"), "cpu")
    product = autotuner.reference(parse_shape_key("matmul_f32fp32_256x256x256"))(*tensors)
    assert product.dtype == torch.float32
    assert float(product.std()) == pytest.approx(OUTPUT_SCALE, rel=0.05)

    class Parameter:
        shape = (3, 2)

        def torch_dtype(self) -> torch.dtype:
            return torch.int32

    supplied = autotuner.supplying(tensors)([None, None, Parameter()])
    assert supplied[:2] == tensors and supplied[2].tolist() == [[0, 0]] * 3


def test_inputs_have_their_own_dtypes() -> None:
    problem = parse_shape_key("blockscaledlinear_e4m3fp32bf16_64x1024x1024")  # 8 x 8 scales: the deviation holds to 4%
    tensors = inputs(problem, "cpu")
    assert [(tuple(each.shape), each.dtype) for each in tensors] == [
        ((64, 1024), torch.float8_e4m3fn),
        ((1024, 1024), torch.float8_e4m3fn),
        ((8, 64), torch.float32),
        ((8, 8), torch.float32),
    ]
    assert float(autotuner.reference(problem)(*tensors).std()) == pytest.approx(OUTPUT_SCALE, rel=0.1)


@pytest.mark.slow
@pytest.mark.skipif(toolchain.find().nvcc is None, reason="needs nvcc; make build installs it")
@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU the whole of it runs")
def test_for_an_h200_all_compiles_and_only_the_timing_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """TileLang compiles every kernel; then each CUDA kernel refuses the tensors of a host."""
    small = {"block_M": 128, "block_N": 128, "block_K": 64, "num_stages": 2, "threads": 128}
    configs = (small, {**small, "pass_configs": {"tl.disable_warp_specialized": True}})
    asked = AutotunerOptions(cache=False, check=False, supply="program")
    made = AutotunerOrder(
        Brief(ROOT, LARGE, H200, None), "kernels.gemm.pipelined", "sources", "an H200", configs, asked, Path()
    )
    host = inputs(LARGE, "cpu")
    monkeypatch.setattr(autotuner, "inputs", lambda problem, device: host)
    told: list[Message] = []
    with pytest.raises(RuntimeError, match="No configuration successfully compiled and passed"):
        autotuner.search(made, told.append)
    reasons = [each.reason for each in told if isinstance(each, Timed)]
    assert len(reasons) == len(configs) and all("wrong device type" in reason for reason in reasons), reasons
