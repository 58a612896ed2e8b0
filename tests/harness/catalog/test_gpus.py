"""The GPU table is valid, finds real GPUs by the names that drivers report, and says what it does not know."""

from functools import partial

import pynvml
import pytest

from harness.catalog import gpus
from harness.cli.app import carry_out
from harness.errors import ExitCode, InfrastructureError, TilebenchError, UsageError
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import parse_shape_key
from harness.machine.guard import guarded
from harness.machine.nvml import Device
from tests.harness.checkout import one_line

LARGE = parse_shape_key("matmul_bf16fp32_8192x8192x8192")
SMALL = parse_shape_key("matmul_bf16fp32_1024x1024x1024")


@pytest.mark.parametrize("gpu", gpus.table().values(), ids=gpus.table())
def test_a_row_is_plausible(gpu: Gpu) -> None:
    if gpu.is_cpu:
        return
    assert gpu.name is not None
    assert gpu.arch.startswith("sm_")
    assert gpu.sms is not None and gpu.sms > 50
    assert gpu.fp16_tflops == gpu.bf16_tflops  # on every tensor core so far
    assert gpu.fp8_tflops is None or gpu.bf16_tflops is None or 1.9 < gpu.fp8_tflops / gpu.bf16_tflops < 2.1
    assert gpu.fp32_tflops is not None and gpu.bf16_tflops is not None and gpu.fp32_tflops < gpu.bf16_tflops
    assert gpu.bandwidth_gbs is not None and 500 < gpu.bandwidth_gbs < 20_000
    assert 10 < gpu.l2_mib < 500


def test_float32_may_be_as_fast_as_three_products_of_tf32() -> None:
    """Half of bfloat16's rate, divided by three: 52 TFLOPS of an A100; its CUDA cores have 19.5."""
    a100, problem = gpus.find("a100"), parse_shape_key("matmul_f32fp32_4096x4096x4096")
    assert problem.flops / (a100.floor_ms(problem) * 1e9) == pytest.approx(52)


def test_the_cpu_claims_no_peak() -> None:
    assert gpus.find("cpu").is_cpu
    assert gpus.find("cpu").floor_ms(LARGE) == 0


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 PCIe", "h100"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA A100-PCIE-40GB", "a100"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("NVIDIA B200", "b200"),
        ("NVIDIA L40", None),
        ("NVIDIA RTX A1000", None),
        ("NVIDIA GeForce RTX 4080", None),
        ("Tesla V100-SXM2-16GB", None),
        ("NVIDIA GB200", None),
        ("NVIDIA GH200 480GB", None),
        ("NVIDIA GeForce RTX 4090 D", None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
    ],
)
def test_the_key_of_a_driver_name(name: str, key: str | None) -> None:
    assert gpus.key_of(name) == key


def test_an_unknown_key_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="unknown GPU key 'h300'; known: auto, h200, h100, .*cpu"):
        gpus.find("h300")


@pytest.mark.parametrize("key", ["auto", "h300"])
def test_auto_is_not_offered_where_it_is_refused(key: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert carry_out(["publish", "--gpu", key]) is ExitCode.USAGE
    assert f"unknown GPU key '{key}'; known: h200, h100" in one_line(capsys.readouterr().err)


def test_the_roofline_is_of_flops_or_of_bytes() -> None:
    h200 = gpus.find("h200")
    assert h200.floor_ms(LARGE) == pytest.approx(2 * 8192**3 / 989e12 * 1e3)
    thin = parse_shape_key("linear_bf16fp32_1x8192x8192")
    assert h200.floor_ms(thin) == pytest.approx(thin.bytes / 4800e9 * 1e3)


def test_a_device_has_one_timer() -> None:
    assert gpus.find("h200").timer == "graph"
    assert gpus.find("cpu").timer == "host"


def present(monkeypatch: pytest.MonkeyPatch, *names: str) -> list[Device]:
    found = [Device(number, name, f"GPU-{number}", "570", 700.0) for number, name in enumerate(names)]
    monkeypatch.setattr(gpus, "devices", lambda: found)
    return found


def test_auto_is_the_machines_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    present(monkeypatch)
    assert gpus.resolve("auto") == (gpus.find("cpu"), None)
    (h200,) = present(monkeypatch, "NVIDIA H200")
    assert gpus.resolve("auto") == (gpus.find("h200"), h200)


def test_cpu_needs_no_gpu_and_minds_none(monkeypatch: pytest.MonkeyPatch) -> None:
    present(monkeypatch, "NVIDIA H200")
    assert gpus.resolve("cpu") == (gpus.find("cpu"), None)


def test_a_key_that_is_not_the_machines_gpu_is_refused_naming_both(monkeypatch: pytest.MonkeyPatch) -> None:
    (h200,) = present(monkeypatch, "NVIDIA H200")
    with pytest.raises(UsageError, match="'h100' was asked for, but this machine's GPU is 'NVIDIA H200'.*key h200"):
        gpus.resolve("h100")
    assert gpus.resolve("h100", force=True) == (gpus.find("h100"), h200)


def test_the_second_gpu_is_found_by_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    _, second = present(monkeypatch, "NVIDIA A100-SXM4-80GB", "NVIDIA H200")
    assert gpus.resolve("h200") == (gpus.find("h200"), second)


@pytest.mark.parametrize(
    ("said", "indices"),
    [("1", [1]), ("1,0", [1, 0]), ("GPU-1", [1]), ("", []), ("1,7,0", [1]), ("0,0", [0]), ("-1", [])],
)
def test_only_the_visible_devices_are_used(monkeypatch: pytest.MonkeyPatch, said: str, indices: list[int]) -> None:
    found = present(monkeypatch, "NVIDIA A100-SXM4-80GB", "NVIDIA H200")
    assert gpus.visible(found, said) == [found[index] for index in indices]


def test_a_gpu_that_is_hidden_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    present(monkeypatch, "NVIDIA A100-SXM4-80GB", "NVIDIA H200")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert gpus.detect() == "a100"
    with pytest.raises(UsageError, match="'h200' was asked for, but this machine's GPU is 'NVIDIA A100"):
        gpus.resolve("h200")


@pytest.mark.parametrize("said", ["", "-1", " -1", "-1,0"])
def test_gpus_that_are_hidden_leave_the_cpu(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    present(monkeypatch, "NVIDIA H200")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", said)
    assert gpus.resolve("auto") == (gpus.find("cpu"), None)


@pytest.mark.parametrize("said", ["MIG-5c9f0d3a-0000-1111-2222-333344445555", "7", "GPU-9", "all"])
def test_what_names_no_gpu_is_refused_and_does_not_mean_the_cpu(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", said)
    present(monkeypatch)
    assert gpus.detect() == "cpu"
    present(monkeypatch, "NVIDIA H200")
    for key in ("auto", "h200"):
        with pytest.raises(UsageError, match=f"CUDA_VISIBLE_DEVICES={said} names no GPU of this machine; set it to"):
            gpus.resolve(key)
    assert gpus.resolve("cpu") == (gpus.find("cpu"), None)


class Failing:
    """A driver that answers with an error, at once or when it is asked for a device."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: int, *, at_once: bool) -> None:
        def fail(*_: object) -> None:
            raise pynvml.NVMLError(error)

        monkeypatch.setattr(pynvml, "nvmlInit", fail if at_once else lambda: None)
        monkeypatch.setattr(pynvml, "nvmlShutdown", lambda: None)
        monkeypatch.setattr(pynvml, "nvmlSystemGetDriverVersion", lambda: "580")
        monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 1)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", fail)


@pytest.mark.parametrize(
    ("error", "at_once", "says"),
    [
        (pynvml.NVML_ERROR_GPU_IS_LOST, False, "GPU is lost"),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, True, "version mismatch"),
        (pynvml.NVML_ERROR_UNKNOWN, True, "Unknown Error"),
    ],
)
def test_a_driver_that_fails_is_one_line_and_does_not_mean_the_cpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: int, at_once: bool, says: str
) -> None:
    Failing(monkeypatch, error, at_once=at_once)
    for key in ("auto", "h200"):
        assert guarded(partial(gpus.resolve, key)) is ExitCode.INFRASTRUCTURE
        said = one_line(capsys.readouterr().err)
        assert "the NVIDIA driver fails: " in said
        assert says in said
        assert "reboot, or take the key 'cpu'" in said
    assert gpus.resolve("cpu") == (gpus.find("cpu"), None)


@pytest.mark.parametrize("error", [pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED])
def test_without_a_driver_there_is_only_the_cpu(monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    Failing(monkeypatch, error, at_once=True)
    assert gpus.resolve("auto") == (gpus.find("cpu"), None)


def test_no_gpu_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    present(monkeypatch)
    with pytest.raises(InfrastructureError, match="this machine has no NVIDIA GPU"):
        gpus.resolve("h200")


def test_a_gpu_without_a_row_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    (v100,) = present(monkeypatch, "Tesla V100-SXM2-16GB")
    with pytest.raises(TilebenchError, match="Tesla V100-SXM2-16GB"):
        gpus.resolve("auto")
    with pytest.raises(UsageError, match="'Tesla V100-SXM2-16GB', which matches no row of gpus.toml; add one"):
        gpus.resolve("a100")
    assert gpus.resolve("a100", force=True) == (gpus.find("a100"), v100)


@pytest.mark.gpu
def test_this_machines_gpu_is_found() -> None:
    gpu, device = gpus.resolve("auto")
    assert device is not None
    assert gpus.key_of(device.name) == gpu.key
