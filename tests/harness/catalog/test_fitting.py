"""Problems that a device cannot hold: one line with the place, before anything runs."""

import math
import sys
from pathlib import Path

import pytest

from harness.catalog import gpus
from harness.catalog.families import Families
from harness.catalog.fitting import POOLS, capability, lacking, needed_bytes, require_fit
from harness.cli.app import carry_out
from harness.errors import ExitCode, UsageError
from harness.judge.child.arena import arena_bytes, granule
from harness.judge.facts.dtypes import DTYPE_BYTES
from harness.judge.facts.problem import parse_shape_key
from harness.machine import memory, nvml
from harness.machine.nvml import Device
from tests.harness.checkout import BASELINE, ROOT, one_line

H200 = Device(0, "NVIDIA H200", "GPU-1", "580", 700.0)
HUGE = "copy_f32fp32_100000x100000"


@pytest.mark.parametrize("key", ["scaledlinear_e4m3fp32bf16_64x64x64", "blockscaledlinear_e4m3fp32bf16_64x64x64"])
def test_a_gpu_without_8_bit_floats(key: str) -> None:
    problem = parse_shape_key(key)
    assert lacking(problem, gpus.find("a100")) == "a100 (sm_80) has no float8_e4m3fn; take another GPU key or dtype"
    for having in ("h200", "h100", "b200", "l40s", "rtx4090", "cpu"):
        assert lacking(problem, gpus.find(having)) is None


@pytest.mark.parametrize(("arch", "found"), [("sm_80", (8, 0)), ("sm_90a", (9, 0)), ("sm_103f", (10, 3))])
def test_a_name_tells_its_compute_capability(arch: str, found: tuple[int, int]) -> None:
    assert capability(arch) == found


@pytest.mark.parametrize("key", list(gpus.table()))
def test_each_starter_ladder_fits_its_gpu(key: str) -> None:
    gpu = gpus.find(key)
    for shape in Families.of(ROOT).starter(gpu):
        require_fit([(shape, parse_shape_key(shape))], gpu, None)


@pytest.mark.parametrize("key", ["copy_f32fp32_64x1024", "matmul_bf16fp32_512x512x512", "rmsnorm_bf16fp32_300x512"])
def test_no_more_is_asked_for_than_a_verification_places(key: str) -> None:
    problem = parse_shape_key(key)
    pool = sum(math.prod(shape) * DTYPE_BYTES[dtype] for shape, dtype in problem.tensors[: len(problem.inputs)])
    assert 0 < needed_bytes(problem) - POOLS * pool <= arena_bytes(problem, 2, granule(problem, cpu=False))


def test_tensors_that_exceed_a_memory_are_refused_with_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, problem = gpus.find("h200"), parse_shape_key("matmul_bf16fp32_65536x65536x65536")
    needed = needed_bytes(problem)
    monkeypatch.setattr(nvml, "total_bytes", lambda device: needed)
    require_fit([("here", problem)], gpu, H200)
    monkeypatch.setattr(nvml, "total_bytes", lambda device: needed - 1)
    with pytest.raises(UsageError, match=r"^here: it needs 112\.0 GiB at least, and NVIDIA H200 has 112\.0 GiB"):
        require_fit([("fits", parse_shape_key("copy_f32fp32_1x1")), ("here", problem)], gpu, H200)
    monkeypatch.setattr(nvml, "total_bytes", lambda device: 0)  # the driver does not tell
    require_fit([("here", problem)], gpu, H200)
    require_fit([("here", problem)], gpu, None)


@pytest.mark.parametrize("verb", ["bench", "verify", "build", "new"])
def test_a_verb_refuses_before_it_starts_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    monkeypatch.setenv("TILEBENCH_ROOT", str(tmp_path))
    monkeypatch.setattr(memory, "total_bytes", lambda: 64 << 30)
    monkeypatch.setitem(sys.modules, "torch", None)
    path = tmp_path / "tuning/cpu/tilelang/srcs" / HUGE / "me/iter000_torch_copy.py"
    path.parent.mkdir(parents=True)
    path.write_text(BASELINE)
    assert carry_out([verb, "--gpu", "cpu", "--shape", HUGE, "--model", "me"]) is ExitCode.USAGE
    place = HUGE if verb == "new" else str(path.relative_to(tmp_path))
    said = one_line(" ".join(capsys.readouterr().err.split()))
    assert f"{place}: it needs 307.3 GiB at least, and this machine has 64.0 GiB; take a smaller shape" in said
    assert [each.name for each in path.parent.iterdir()] == ["iter000_torch_copy.py"]
