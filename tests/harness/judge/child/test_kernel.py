"""The host code of a kernel is compiled with it, and not at its first launch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.checkout import ROOT

LINK = """
import sys
from pathlib import Path

import torch

from harness.catalog import gpus
from harness.judge.child.confinement import no_more_processes
from harness.judge.child.contestant import load
from harness.judge.child.kernel import build_kernel
from harness.judge.facts.problem import parse_shape_key

path, linked = Path(sys.argv[1]), sys.argv[2] == "linked"
kernel = build_kernel(load(path).build, parse_shape_key(path.parts[-3]), gpus.find("h200"), torch.device("cuda"))
if linked:
    kernel.link()
no_more_processes()
kernel.link()  # as the first launch does
"""


@pytest.mark.slow
def test_what_is_linked_starts_no_compiler_later(tmp_path: Path) -> None:
    """TileLang compiles a GPU kernel's host code at the first launch, which would take the device for a second."""
    (path,) = (ROOT / "tuning/h200/tilelang/srcs/matmul_bf16fp32_1024x1024x1024/tilebench").glob("iter001_*.py")
    environment = os.environ | {"TILELANG_CACHE_DIR": str(tmp_path)}
    for kind, needs_none in (("plain", False), ("linked", True), ("linked", True)):  # the last time from the cache
        command = [sys.executable, "-c", LINK, str(path), kind]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == needs_none, done.stderr
