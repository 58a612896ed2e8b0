"""The verbs of the container, where Docker has no image yet."""

from contextlib import nullcontext

import pytest

from harness.cli import container
from harness.container import engine, image
from harness.errors import InfrastructureError
from tests.harness.checkout import ROOT


def test_a_gpu_without_a_driver_is_refused_before_the_image_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine can only be connected to: whatever else is asked of it fails."""
    monkeypatch.setenv("TILEBENCH_ROOT", str(ROOT))
    monkeypatch.setattr(engine, "connected", nullcontext)
    monkeypatch.setattr(image, "fitting", lambda *_: None)
    monkeypatch.setattr(container, "devices", list)
    with pytest.raises(InfrastructureError, match="no NVIDIA driver answers: nvidia-smi must work"):
        container.run_in_docker("bench", "--gpu", "h100")
