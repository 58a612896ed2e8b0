"""What an outcome is held against: the iteration, or a device that no longer answers."""

from pathlib import Path

import pynvml
import pytest

from harness.catalog.gpus import find
from harness.catalog.tree import Tree
from harness.errors import InfrastructureError
from harness.judge import fault_attribution
from harness.judge.candidate import Candidate, Referees, Rejection, Settings
from harness.machine.nvml import Device
from harness.records.base import Cause
from tests.harness.checkout import MODEL, SHAPE

H200 = Device(0, "NVIDIA H200", "GPU-1", "580", 700.0)


def test_a_device_that_no_longer_answers_ends_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def gone(_: object) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)

    for name in ("nvmlInit", "nvmlShutdown"):
        monkeypatch.setattr(pynvml, name, lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByUUID", gone)
    candidate = a_candidate(tmp_path)
    with pytest.raises(InfrastructureError, match="NVIDIA H200 does not answer any more .*see dmesg"):
        fault_attribution.attribute(candidate, Rejection(Cause.RUNTIME, "CUDA error"))
    wrong = Rejection(Cause.WRONG_RESULT, "max_abs_err=3")
    assert fault_attribution.attribute(candidate, wrong) is wrong


def test_a_device_that_answers_or_cannot_say_is_not_blamed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def unsaid(_: object) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    for name in ("nvmlInit", "nvmlShutdown"):
        monkeypatch.setattr(pynvml, name, lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByUUID", lambda _: None)
    crashed = Rejection(Cause.CRASH, "exited with code 3")
    for answer in (unsaid, lambda _: None):
        monkeypatch.setattr(pynvml, "nvmlDeviceGetUtilizationRates", answer)
        assert fault_attribution.attribute(a_candidate(tmp_path), crashed) is crashed


def a_candidate(root: Path) -> Candidate:
    tree = Tree(root)
    path = root / f"tuning/h200/tilelang/srcs/{SHAPE}/{MODEL}/iter001_idea.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    gpu = find("h200")
    return Candidate(tree.parse(path), root, gpu, H200, Settings(1.0), Referees(root, gpu))
