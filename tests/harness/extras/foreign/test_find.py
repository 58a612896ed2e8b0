"""The kernel of a script: found with its arguments and options, or a reason why not."""

import ast
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.catalog import gpus
from harness.extras.foreign.calls import KernelNotFound, is_last
from harness.extras.foreign.find import found_in
from harness.extras.foreign.record import SelfReport
from harness.extras.foreign.self_report import figures
from harness.iteration import Program
from harness.judge.child.kernel import target_of
from harness.judge.facts.problem import parse_shape_key

PROBLEM = parse_shape_key("matmul_f32fp32_64x32x16")
HEAD = """
import functools
import tilelang
import tilelang as tl
import tilelang.cpu.language as T
from tilelang import compile as to_kernel

def body(M, N, K, block=1):
    @T.prim_func
    def kernel(A: T.Tensor((M, K), "float32"), B: T.Tensor((K, N), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(block):
            for i, j in T.grid(M, N):
                C[i, j] = A[i, 0] * B[0, j]
    return kernel
"""
LAZY = """
@tilelang.jit(target="c", pass_configs={"tl.disable_tma_lower": True}, compile_flags="-O2")
def matmul(M, N, K, block_M, num_stages=2):
    return body(M, N, K, block_M * 100 + num_stages)
"""

Find = Callable[[str], Program]


@pytest.fixture
def find(tmp_path: Path) -> Find:
    """The program of a script with this text below the usual head."""

    def program(text: str) -> Program:
        path = tmp_path / "script.py"
        path.write_text(HEAD + text)
        spec = importlib.util.spec_from_file_location("script", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return found_in(module, ast.parse(path.read_text()), PROBLEM, target_of(gpus.find("cpu")))

    return program


def blocks(program: Program) -> int:
    """The grid of a program's launch, which encodes the arguments in these scripts."""
    script: Any = program.prim_func.script()
    return int(
        script.partition('launch_thread("blockIdx.x", ')[2].partition(")")[0]
        or script.partition("T.thread_binding(")[2].partition(",")[0]
    )


@pytest.mark.parametrize(
    ("calls", "grid"),
    [
        ("BLOCK_M = 8", 802),
        ("block_M = 8", 802),
        ("def bench(): return matmul(64, 32, 16, 4)", 402),
        ("S = 5\ndef bench(): return matmul(64, 32, 16, num_stages=S, block_M=4)", 405),
        ("CONFIG = dict(block_M=4, num_stages=3)\ndef bench(): return matmul(64, 32, 16, **CONFIG)", 403),
        ("def bench(m, block=6):\n    b, stages = 7, 1\n    return matmul(m, m, m, block, stages)", 601),
        ("def verify(): return matmul(8, 8, 8, 1)\ndef bench(): return matmul(64, 32, 16, 4)", 402),
        ("def verify(): return matmul(64, 32, 16, 4, 2)\ndef bench(): return matmul(64, 32, 16, 4)", 402),
    ],
)
def test_arguments_come_from_the_calls_and_the_constants(find: Find, calls: str, grid: int) -> None:
    program = find(f"{LAZY}\n{calls}\n")
    assert blocks(program) == grid
    assert (dict(program.pass_configs), program.compile_flags) == ({"tl.disable_tma_lower": True}, ("-O2",))


@pytest.mark.parametrize(
    ("calls", "reason"),
    [
        ("", "matmul: nothing says what 'block_M' is"),
        (
            "def verify(): return matmul(64, 32, 16, 4)\ndef bench(): return matmul(64, 32, 16, 8)",
            "matmul: it is called in 2 ways, and nothing says which",
        ),
        (
            "import sys\ndef bench(): return matmul(64, 32, 16, len(sys.argv))",
            "matmul: what it is given as 'block_M' is decided when it runs",
        ),
        (
            "def bench():\n    for block in (1, 2):\n        matmul(64, 32, 16, block)",
            "matmul: what it is given as 'block_M' is decided when it runs",
        ),
    ],
)
def test_what_cannot_be_told_is_said(find: Find, calls: str, reason: str) -> None:
    with pytest.raises(KernelNotFound) as raised:
        find(f"{LAZY}\n{calls}\n")
    assert reason in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "kernel = body(64, 32, 16)\ndef bench(): return tl.compile(kernel, out_idx=[2], compile_flags=['-O3'])",
        "FLAGS = ['-O3']\nkernel = body(64, 32, 16)\ndef bench(): return to_kernel(kernel, compile_flags=FLAGS)",
        "def bench():\n    return tilelang.compile(body(64, 32, 16), out_idx=-1, compile_flags='-O3')",
        "def make(M, N, K):\n    return tl.compile(body(M, N, K), target='c', out_idx=[-1], compile_flags=['-O3'])",
        "@functools.cache\ndef make(M, N, K):\n    return tl.compile(body(M, N, K), target='c', compile_flags=['-O3'])",
        "kernel = tl.compile(body(64, 32, 16), target='c', out_idx=[2], compile_flags=['-O3'])",
    ],
)
def test_options_are_those_of_its_own_compilation(find: Find, text: str) -> None:
    assert find(text).compile_flags == ("-O3",)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("del body", "no PrimFunc, no compiled kernel, and no function that gives one"),
        ("a = body(64, 32, 16, 1)\nb = body(64, 32, 16, 2)", "it has several kernels, and nothing says which: a, b"),
        (
            "kernel = body(64, 32, 16)\n"
            "def f(): return tl.compile(kernel)\n"
            "def g(): return tl.compile(kernel, compile_flags=['-O1'])",
            "kernel: it is compiled in 2 ways",
        ),
        ("kernel = body(64, 32, 16)\ndef f(): return tl.compile(kernel, out_idx=[0])", "is not its last parameter"),
        ("kernel = body(T.dynamic('m'), 32, 16)", "kernel: its shapes are known when it is called only"),
        (
            f"import tilelang.autotuner\n@tilelang.autotune(configs=[dict(block_M=1)]){LAZY}",
            "matmul: it is tuned when it runs",
        ),
        (
            "@T.prim_func\ndef copy(A: T.Tensor((64,), 'float32'), C: T.Tensor((64,), 'float32')):\n"
            "    with T.Kernel(1):\n        C[0] = A[0]\ndel body",
            "copy: the kernel takes 2 tensors",
        ),
    ],
)
def test_what_is_no_kernel_of_the_problem(find: Find, text: str, reason: str) -> None:
    with pytest.raises(KernelNotFound) as raised:
        find(text)
    assert reason in str(raised.value)


def test_of_several_only_one_computes_the_problem(find: Find) -> None:
    assert blocks(find("small = body(8, 8, 8, 1)\nright = body(64, 32, 16, 2)")) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("VERIFY: PASS max_abs_err=0.1\nTFLOPS: 781.3 time_ms: 0.175914\n", SelfReport(True, 0.175914, 781.3)),
        ("VERIFY: FAIL max_abs_err=3\n", SelfReport(False, None, None)),
        ("tflops=1.5e2, time_ms=2e-3", SelfReport(None, 0.002, 150.0)),
        ("time_ms: 1\ntime_ms: 2\ntime_ms: nan", SelfReport(None, 2.0, None)),
        ("time_ms: 0.0.1 TFLOPS: 0", SelfReport(None, None, None)),
    ],
)
def test_the_figures_that_a_script_prints(text: str, said: SelfReport) -> None:
    assert figures(text) == said


def test_a_function_that_tunes_itself_is_taken_as_a_call_pins_it(find: Find) -> None:
    calls = "def tune(): return matmul(64, 32, 16)\ndef bench(): return matmul(64, 32, 16, block_M=5)"
    assert (
        blocks(find(f"import tilelang.autotuner\n@tilelang.autotune(configs=[dict(block_M=1)]){LAZY}\n{calls}")) == 502
    )


@pytest.mark.parametrize(
    ("out_idx", "outputs", "last"),
    [
        (None, 2, True),
        ([-2, -1], 2, True),
        ([3, 4], 2, True),
        ([-1], 2, False),
        ([-1, -2], 2, False),
        ([-2, -1], 1, False),
        (-1, 1, True),
    ],
)
def test_outputs_are_the_last_parameters_in_their_order(out_idx: Any, outputs: int, last: bool) -> None:
    assert is_last(out_idx, 5, outputs) is last


@pytest.mark.parametrize("head", ["def main():\n", "if __name__ == '__main__':\n"])
def test_a_command_line_counts_by_its_defaults(find: Find, head: str) -> None:
    lines = (
        "import argparse",
        "parser = argparse.ArgumentParser()",
        "parser.add_argument('-b', '--block-M', type=int, default=7)",
        "parser.add_argument('--tune', action='store_true')",
        "args = parser.parse_args()",
        "block, _ = args.block_M, args.tune",
        "matmul(64, 32, 16, block)",
    )
    assert blocks(find(LAZY + head + "".join(f"    {line}\n" for line in lines))) == 702
