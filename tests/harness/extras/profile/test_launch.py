"""The launching program, run for real on the CPU as far as it goes there; and names in generated sources."""

import fcntl
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import psutil
import pytest
import tilelang
from tilelang import tvm

from harness.errors import InfrastructureError
from harness.extras.profile import fallback
from harness.extras.profile.launch import Job, Launched
from harness.judge.facts.compilation import kernel_names
from harness.judge.facts.problem import parse_shape_key
from harness.records.base import Cause
from harness.records.profiles import KernelTime
from kernels.gemm import stream_k
from tests.harness.checkout import SCALAR, Checkout, until

WRONG = SCALAR.replace("return scalar_gemm(problem, **CONFIG)", "return lambda a, b, c: c.zero_()")
BROKEN = SCALAR.replace("scalar_gemm(problem", "no_such_function(problem")


def launch(checkout: Checkout, path: Path, *, trace: str | None = None, parent: int | None = None) -> Launched:
    job = checkout.root / "job.json"
    outcome = checkout.root / "outcome.json"
    gate = str(checkout.root / "gate")
    told = Job(str(checkout.root), str(path), "cpu", gate, str(outcome), parent or os.getpid(), trace)
    job.write_bytes(msgspec.json.encode(told))
    done = subprocess.run(
        [sys.executable, "-m", "harness.extras.profile.launch", str(job)],
        cwd=checkout.root,
        env=checkout.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.is_file(), done.stderr
    return msgspec.json.decode(outcome.read_bytes(), type=Launched)


def test_an_iteration_is_built_verified_and_launched(checkout: Checkout) -> None:
    found = launch(checkout, checkout.write("iter001_tiles", SCALAR.format(block=16)))
    assert (found.cause, found.reason) == (None, None)
    assert [trial.name for trial in found.trials] == ["profiled inputs", "profiled launch"]
    assert all(trial.max_abs_err is not None and trial.max_abs_err < 1e-4 for trial in found.trials)
    assert list(found.seconds) == ["import", "build", "wait", "verify", "launch"]


@pytest.mark.parametrize(
    ("source", "cause", "reason", "line"),
    [
        (WRONG, Cause.WRONG_RESULT, "profiled inputs trial: max_abs_err=", "return"),
        (BROKEN, Cause.COMPILE, "NameError: name 'no_such_function' is not defined", "no_such_function"),
        ("import nothing_of_this_name\n", Cause.LOAD, "ModuleNotFoundError", "import nothing_of_this_name"),
    ],
)
def test_what_is_wrong_is_never_profiled(checkout: Checkout, source: str, cause: Cause, reason: str, line: str) -> None:
    found = launch(checkout, checkout.write("iter001_tiles", source.replace("{block}", "16")))
    assert found.cause is cause
    assert found.reason is not None and found.reason.startswith(reason)
    assert re.search(rf", at iter001_tiles\.py:\d+: .*{line}", found.reason)
    assert "launch" not in found.seconds


def test_a_trace_of_activities(checkout: Checkout) -> None:
    """On a CPU it holds operators and no kernel, and is read as such."""
    trace = checkout.root / "trace.json"
    found = launch(checkout, checkout.write("iter001_tiles", SCALAR.format(block=16)), trace=str(trace))
    assert found.reason is None
    with pytest.raises(InfrastructureError, match="the trace holds no kernel"):
        fallback.read(trace)


def test_it_waits_for_the_gate_and_ends_with_the_run(checkout: Checkout) -> None:
    """Held by another: it builds, and waits; when the run that started it is gone, so is it."""
    path = checkout.write("iter001_tiles", SCALAR.format(block=16))
    run = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    job, outcome, gate = (checkout.root / name for name in ("job.json", "outcome.json", "gate"))
    told = Job(str(checkout.root), str(path), "cpu", str(gate), str(outcome), run.pid, None)
    job.write_bytes(msgspec.json.encode(told))
    with gate.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        command = [sys.executable, "-m", "harness.extras.profile.launch", str(job)]
        with subprocess.Popen(command, cwd=checkout.root, env=checkout.environment()) as waiting:
            child = psutil.Process(waiting.pid)
            assert until(lambda: any(each.path == str(gate) for each in child.open_files()))
            time.sleep(0.5)  # what has the gate would launch now
            assert waiting.poll() is None and not outcome.exists()
            run.communicate(b"\n")
            assert until(lambda: waiting.poll() is not None), "it outlived the run"
    assert not outcome.exists()


def test_names_in_a_generated_source() -> None:
    """Declared, then defined with its launch bounds: one kernel."""
    problem = parse_shape_key("matmul_bf16fp32_4096x4096x4096")
    program = stream_k(problem, block_M=128, block_N=256, block_K=64, num_stages=4)
    target = tvm.target.Target({"kind": "cuda", "arch": "sm_90a"})
    with target:
        source = tilelang.lower(program.prim_func, target=target).kernel_source
    assert kernel_names(source) == ("main_kernel",)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ('extern "C" __global__ void __launch_bounds__(256, 1) split_kernel(float* a) {', ("split_kernel",)),
        (
            'extern "C" __global__ void a_kernel(int* p);\n'
            'extern "C" __global__ void __launch_bounds__(128) b_kernel (',
            ("a_kernel", "b_kernel"),
        ),
        ("__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)\nmain_kernel(", ("main_kernel",)),
        ("static __device__ void helper(int x) {}", ()),
        ("", ()),
    ],
)
def test_kernel_names(source: str, names: tuple[str, ...]) -> None:
    assert kernel_names(source) == names


def test_a_trace_gives_each_kernels_name_and_median_duration(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::fill_", "dur": 9},
        {"ph": "X", "cat": "kernel", "name": "main_kernel", "dur": 194.2, "args": {"registers per thread": 168}},
        {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoD", "dur": 3},
        {"ph": "X", "cat": "kernel", "name": "reduce_kernel", "dur": 12.5},
        {"ph": "X", "cat": "kernel", "name": "main_kernel", "dur": 190.0},
        {"ph": "X", "cat": "kernel", "name": "main_kernel", "dur": 250},
        {"ph": "M", "name": "process_name", "args": {"name": "python"}},
    ]
    (tmp_path / "trace.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    assert fallback.read(tmp_path / "trace.json") == (
        KernelTime("main_kernel", 194.2),
        KernelTime("reduce_kernel", 12.5),
    )


@pytest.mark.parametrize("content", ["", "{", '{"traceEvents": [1]}'])
def test_a_torn_trace(tmp_path: Path, content: str) -> None:
    (tmp_path / "trace.json").write_text(content)
    with pytest.raises(InfrastructureError, match="not a trace of torch.profiler"):
        fallback.read(tmp_path / "trace.json")
