"""Fixtures for all tests: small trees, and a reason to skip where no GPU is."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from harness.catalog.tree import Tree
from harness.machine.nvml import devices
from tests import lanes
from tests.harness.checkout import Checkout
from tests.lanes import Scheduler

settings.register_profile("thorough", max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("default", max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("fast", settings.get_profile("default"), max_examples=50)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: on two cores its threads only wait


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="skip what is slow, imports torch, or starts a Python process")


def pytest_configure(config: pytest.Config) -> None:
    starts_workers = config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    if config.getoption("fast") and not starts_workers:
        lanes.keep_fast()
        settings.load_profile("fast")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduler:
    return Scheduler(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    no_gpu = not devices()
    for item in items:
        if no_gpu and item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="this machine has no NVIDIA GPU"))
        if config.getoption("fast") and item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="it is slow"))


def pytest_collection_finish() -> None:
    gc.freeze()  # thousands of items and modules stay to the end: no collection need walk over them


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
