"""What the container costs: the same bench inside and outside, in pairs; TILEBENCH_PAIRS=8 .ci/container -s -k costs"""

import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
from docker.models.images import Image

from harness.catalog.tree import Tree
from harness.records.results import Record
from harness.records.store import read
from tests.harness.container.machine import Host

SHAPE = "matmul_f32fp32_256x256x256"
VERB = ("bench", "--gpu", "cpu", "--shape", SHAPE, "--again", "--budget", "1")
PAIRS = int(os.environ.get("TILEBENCH_PAIRS", "0"))
MOST = 1.02

pytestmark = [
    pytest.mark.usefixtures("gone"),
    pytest.mark.skipif(not PAIRS, reason="a figure for a quiet machine: TILEBENCH_PAIRS says how many"),
    pytest.mark.timeout(7200),
]


def newest(root: Path) -> dict[str, float]:
    """The kernel's time in milliseconds, by iteration."""
    found, _ = read(Tree(root).records("cpu", SHAPE, "tilebench"), Record)
    return {each.iteration: each.measurement.time_ms for each in found if each.measurement}


def test_a_bench_costs_no_more_inside(host: Host, image: Image, work: Path) -> None:
    outside = work / "outside"
    shutil.copytree(host.clone, outside, ignore=shutil.ignore_patterns(".venv*", ".git"))
    environment = os.environ | {"TILEBENCH_ROOT": str(outside), "PYTHONPATH": str(outside)}

    def run_inside() -> None:
        done = host.harness("run-in-docker", *VERB)
        assert done.returncode == 0, done.stderr

    def run_outside() -> None:
        command = [sys.executable, "-m", "harness", *VERB]
        subprocess.run(command, cwd=outside, env=environment, check=True, capture_output=True)

    walls: list[float] = []
    kernels: list[float] = []
    for number in range(PAIRS + 1):
        seconds: dict[object, float] = {}
        for run in random.sample((run_inside, run_outside), 2):
            started = time.monotonic()
            run()
            seconds[run] = time.monotonic() - started
        if number == 0:
            continue  # the first compiles bytecode, and reads the disk
        walls.append(seconds[run_inside] / seconds[run_outside])
        there, here = newest(host.clone), newest(outside)
        kernels.append(statistics.median(there[name] / here[name] for name in there))
        print(f"{number}: {seconds[run_inside]:.1f} s inside, {seconds[run_outside]:.1f} s outside, {kernels[-1]:.4f}")
    wall, kernel = statistics.median(walls), statistics.median(kernels)
    print(f"wall {wall:.4f} [{min(walls):.4f}, {max(walls):.4f}], kernels {kernel:.4f} in {PAIRS} pairs")
    assert kernel < MOST
    assert wall < MOST
