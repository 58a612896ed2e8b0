"""What goes wrong while an iteration is loaded and built is told with the line that its author can mend."""

import textwrap
from pathlib import Path

import pytest
import torch

from harness.catalog import gpus
from harness.judge.child.brief import Brief
from harness.judge.child.contestant import load
from harness.judge.child.failure import failed
from harness.judge.child.kernel import build_kernel
from harness.judge.facts.problem import parse_shape_key
from harness.records.base import Cause

KERNEL = """
import tilelang
import tilelang.{language} as T


def build(problem):
    M, N, K = problem.dims

    @T.prim_func
    def kernel(A: T.Tensor((M, K), "{dtype}"), B: T.Tensor((K, N), "{dtype}"), C: T.Tensor((M, N), "{dtype}")):
        with T.Kernel(1, {threads}):
{body}

    return kernel
"""
TILES = """X = T.alloc_shared((64, 64), "bfloat16")
Y = T.alloc_shared((64, 32), "bfloat16")
Z = T.alloc_fragment((64, 64), "float32")
"""
SCALAR = "for i, j in T.grid(M, N):\n    C[i, j] = 0.0\n    for k in T.serial(K):\n        C[i, j] += A[i, k] * B[k, j]"
# A whole file, or the body of a kernel for a CPU or an H200 -> what is said, and of which line.
FILES = {
    "def build(problem):\n    return problem.dimensions[0]": ("has no attribute 'dimensions'", "return problem.dimen"),
    "def build(problem):\n    assert problem.dims[0] > 64, 'M'": ("AssertionError: M", "assert problem.dims"),
    "def build(problem):\n    return 1 // (problem.dims[0] - 64)": ("ZeroDivisionError", "return 1 //"),
    "raise SystemExit(3)": ("SystemExit: 3", "raise SystemExit(3)"),
    "class E(Exception):\n    def __str__(self):\n        return self.none\n\n\nraise E": (
        "E: its message raises AttributeError",
        "raise E",
    ),
    "def f(n):\n    return f(n + 1)\n\n\ndef build(problem):\n    f(0)": ("RecursionError", "return f(n + 1)"),
    "import numpyy\n\n\ndef build(problem):\n    pass": ("No module named 'numpyy'", "import numpyy"),
    "from kernels.cpu import scalar_gemm\n\n\ndef build(problem):\n    return scalar_gemm(problem, block_m=1)": (
        "unexpected keyword argument 'block_m'",
        "return scalar_gemm(problem, block_m=1)",
    ),
    "import tilelang\n\n\n@tilelang.jit\ndef f(M):\n    return M.none\n\n\ndef build(problem):\n    return f(3)": (
        "'int' object has no attribute 'none'",
        "return M.none",
    ),
}
ON_CPU = {
    SCALAR.replace("A[i, k]", "a[i, k]"): ("name 'a' is not defined", "C[i, j] += a[i, k]"),
    SCALAR.replace("serial", "seriall"): ("no attribute 'seriall'", "for k in T.seriall(K):"),
    SCALAR.replace("[i, k]", "[i, k, 0]"): ("Buffer A is 2-dimensional", "C[i, j] += A[i, k, 0]"),
    SCALAR.replace("A[i, k]", "T.cast(A[i, k], 'float23')"): ("type float23", "C[i, j] += T.cast("),
    "while True:\n    C[0, 0] = 1.0": ("Infinite while loop", "while True:"),
    "if A[0, 0]:\n    C[0, 0] = foo": ("name 'foo' is not defined", "C[0, 0] = foo"),
}
ON_H200 = {
    "T.gemm(X, Y, Z)": ("T.gemm", "T.gemm(X, Y, Z)"),
    "T.gemm(X, X, Y)": ("", "T.gemm(X, X, Y)"),
    "T.copy(A[0, 0], Q)": ("name 'Q' is not defined", "T.copy(A[0, 0], Q)"),
    "for i in T.Parallel(64):\n    Z[i] = 0": ("Buffer Z is 2-dimensional", "Z[i] = 0"),
}


def kernel(body: str, **filled: object) -> str:
    return KERNEL.format(body=textwrap.indent(body, " " * 12), **filled)


CASES = [
    *(("cpu", source, *says) for source, says in FILES.items()),
    *(
        ("cpu", kernel(body, language="cpu.language", dtype="float32", threads=1), *says)
        for body, says in ON_CPU.items()
    ),
    *(
        ("h200", kernel(TILES + body, language="language", dtype="bfloat16", threads="threads=128"), *says)
        for body, says in ON_H200.items()
    ),
]


@pytest.mark.parametrize(("key", "source", "says", "line"), CASES, ids=[f"{key}-{says}" for key, _, says, _ in CASES])
def test_a_failure_names_file_and_line(tmp_path: Path, key: str, source: str, says: str, line: str) -> None:
    path = tmp_path / "iter001_idea.py"
    path.write_text(source)
    problem = parse_shape_key("matmul_f32fp32_64x64x64" if key == "cpu" else "matmul_bf16fp32_64x64x64")
    brief = Brief(tmp_path, problem, gpus.find(key), None, path, tmp_path)
    with pytest.raises(BaseException) as raised:  # noqa: PT011  # an iteration raises what it likes, an exit too
        build_kernel(load(path).build, problem, brief.gpu, torch.device(key if key == "cpu" else "cuda"))
    told = failed(raised.value, Cause.COMPILE, brief)
    assert says in told.reason
    number = 1 + next(number for number, text in enumerate(source.splitlines()) if text.strip().startswith(line))
    assert f", at iter001_idea.py:{number}: {line}" in told.reason
    assert says in told.traceback


@pytest.mark.parametrize("member", ["__notes__ = 7", "__traceback__ = property(exit)"])
def test_an_exception_that_cannot_be_told_is_still_an_answer(member: str, tmp_path: Path) -> None:
    path = tmp_path / "iter001_idea.py"
    path.write_text(f"class Odd(Exception):\n    {member}\n\n\nraise Odd")
    with pytest.raises(Exception) as raised:  # noqa: PT011  # a class of its own
        load(path)
    problem = parse_shape_key("matmul_f32fp32_64x64x64")
    told = failed(raised.value, Cause.LOAD, Brief(tmp_path, problem, gpus.find("cpu"), None, path, tmp_path))
    assert told.cause is Cause.LOAD
    assert told.reason.startswith("Odd")
