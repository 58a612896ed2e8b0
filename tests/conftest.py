"""Fixtures for all tests: small trees, and a reason to skip where no GPU is."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from harness.catalog.tree import Tree
from harness.machine.nvml import devices
from tests.harness.checkout import Checkout

settings.register_profile("thorough", max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("default", max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: on two cores its threads only wait


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpu: needs an NVIDIA GPU")
    config.addinivalue_line("markers", "slow: takes more than ten seconds")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if devices():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="this machine has no NVIDIA GPU"))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """An empty checkout."""
    (tmp_path / "tuning").mkdir()
    return Tree(tmp_path)


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    """A checkout with a copy of the code, for the real command line."""
    made = Checkout.create(tmp_path / "checkout")
    yield made
    made.end()
