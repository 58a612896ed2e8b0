"""A failure names the file, the line and the source line that its author can mend: snippets, each with its line."""

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

from harness.evidence import toolchain
from tests.harness.checkout import BASELINE, SAMPLES, SHAPE, Checkout
from tests.harness.envelopes import answer

pytestmark = pytest.mark.slow  # it builds every snippet

HERE: Final = "# here"  # marks the line that must be named
HEAD: Final = '''"""It is bad in its own way, {name}."""

import tilelang
import tilelang.cpu.language as T
import torch

from kernels.cpu import scalar_gemm

PARENT = "iter000_torch_matmul"
CONFIG = dict(loops=3)
'''
BUILD: Final = "\n\ndef build(problem):\n    M, N, K = problem.dims\n"
KERNEL: Final = (
    BUILD
    + """
    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "float32"),
        B: T.Tensor((K, N), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(1):
            {body}

    return kernel
"""
)


def helped(body: str) -> str:
    """A helper that build calls."""
    return f"\n\ndef helper(problem):\n    {body}\n{BUILD}    return helper(problem)\n"


def built(body: str) -> str:
    return f"{BUILD}    {body}\n"


def traced(*lines: str) -> str:
    """A kernel of these lines."""
    return KERNEL.replace("{body}", "\n            ".join(lines))


def launched(body: str) -> str:
    return f"{BUILD}\n    def launch(a, b, c):\n        {body}\n\n    return launch\n"


CRASH: Final = "    C[i, j] = T.call_extern('float32', 'raise', 11)"
C: Final = 'C: T.Tensor((M, N), "float32"),'
EACH: Final = "for i, j in T.grid(M, N):"
# Name -> source below the head, and what the reason says before the place.
SNIPPETS: Final = {
    "no_such_name_at_import": ("\nTotal = totl  # here\n" + built("return None"), "NameError: name 'totl'"),
    "no_such_name_in_build": (built("return totl  # here"), "NameError: name 'totl' is not defined"),
    "helper_divides_by_zero": (helped("return 1 // 0  # here"), "ZeroDivisionError"),
    "wrong_keyword": (built("return scalar_gemm(problem, block_Q=8)  # here"), "TypeError: scalar_gemm"),
    "family_refuses": (built("return scalar_gemm(problem, block_M=5, block_N=8, block_K=8)  # here"), "block_M=5"),
    "traced_name": (traced(EACH, "    C[i, j] = totl[i]  # here"), "NameError: name 'totl'"),
    "traced_rank": (traced(EACH, "    C[i, j] = A[i]  # here"), "Buffer A is 2-dimensional"),
    "traced_dtype": (traced(EACH, "    C[i, j] = T.cast(A[i, j], 'floot')  # here"), "unknown dtype"),
    "traced_attribute": (traced("x = T.alloc_lokal((M, N), 'float32')  # here", "T.clear(x)"), "alloc_lokal"),
    "traced_gemm": (
        traced("x = T.alloc_local((M, N), 'float32')", "T.gemm(A, x, A[0, 0])  # here"),
        "AssertionError: T.gemm M shape",
    ),
    "traced_copy": (
        traced("x = T.alloc_local((M, N, 3), 'float32')", "T.copy(A[0, 0], x)  # here"),
        "AssertionError: assert len",
    ),
    "lowered_fragment": (
        traced("x = T.alloc_fragment((M, N), 'float32')  # here", "T.copy(A, x)", "T.copy(x, C)"),
        "The layout for fragment x",
    ),
    "lowered_clear": (
        traced("x = T.alloc_local((M, 1 << 40), 'float32')", "T.clear(x)").replace("kernel(\n", "kernel(  # here\n"),
        "Check failed",
    ),
    "compiled_flag": (
        built('return scalar_gemm(problem, block_M=8, block_N=8, block_K=8, compile_flags=("--no-flag",))  # here'),
        "unrecognized command-line option",
    ),
    "compiled_extern": (
        traced(EACH, "    C[i, j] = T.call_extern('float32', 'no_function', A[i, j])  # here"),
        "undefined symbol: no_function",
    ),
    "compiled_twice": (traced("C = A").replace(C, f"{C}  # here"), "redefinition"),
    "raises_at_launch": (launched('raise RuntimeError("not today")  # here'), "RuntimeError: not today"),
    "shape_at_launch": (launched("c.copy_(a[:3])  # here"), "RuntimeError: The size of tensor"),
    "crashes_at_launch": (
        traced(EACH, CRASH).replace("return kernel", "run = tilelang.compile(kernel, target='c')\n")
        + launched("run(a, b, c)  # here").removeprefix(BUILD),
        "killed by SIGSEGV",
    ),
    "hangs_at_launch": (launched("[None for _ in iter(int, 1)]  # here"), "no answer within 15 s"),
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    made = Checkout.create(tmp_path_factory.mktemp("failures") / "checkout")
    made.ladder(())
    for number, (name, (below, _)) in enumerate(SNIPPETS.items(), start=1):
        made.write(f"iter{number:03d}_{name}", HEAD.format(name=name) + below)
    yield made
    made.end()


@pytest.fixture(scope="module")
def records(checkout: Checkout) -> dict[str, Any]:
    done = checkout.run("verify", "--shape", SHAPE, "--deadline", "15", "--json")
    return {each["iteration"].partition("_")[2]: each for each in answer(done.stdout)["records"]}


@pytest.mark.parametrize("name", SNIPPETS)
def test_a_failure_names_its_line_and_shows_it(checkout: Checkout, records: dict[str, Any], name: str) -> None:
    found = records[name]
    path = checkout.folder() / f"{found['iteration']}.py"
    (line,) = (number for number, text in enumerate(path.read_text().splitlines(), start=1) if HERE in text)
    assert SNIPPETS[name][1] in found["reason"]
    assert f", at {path.name}:{line}: " in found["reason"]
    assert HERE in found["reason"]
    assert "\n" not in found["reason"]
    assert f'{path.name}", line ' in found["traceback"] or name.startswith(("lowered", "compiled"))
    assert len(found["traceback"]) <= 6001 + len("\n…\n")
    assert f"{checkout.root}/" not in found["traceback"]


GPU_SHAPE: Final = "matmul_bf16fp32_256x256x256"
# Sample under tests/samples/cuda -> what is changed in it, what the compilers say, and the line that they mean.
ON_GPU: Final = {
    "no_warp_partition": ("", "", "M must be divisible by 16, but got 24", "T.gemm("),
    "block_k_of_24": ("", "", "block_K (24) must be a multiple of micro_size_k (16)", "T.gemm("),
    "eager_jit_fails": ("", "", "M must be divisible by 16, but got 24", "T.gemm("),
    "stock": ("T.clear(C_local)", 'T.call_extern("handle", "no_function")', "no_function", "T.call_extern("),
}


@pytest.fixture(scope="module")
def built_for_gpu(checkout: Checkout) -> dict[str, Any]:
    if toolchain.find().nvcc is None:
        pytest.skip("there is no nvcc")
    checkout.write("iter000_torch_matmul", BASELINE, GPU_SHAPE, gpu="h200")
    for number, (name, (old, new, *_)) in enumerate(ON_GPU.items(), start=1):
        source = (SAMPLES / "cuda" / f"{name}.py").read_text().replace(old, new)
        checkout.write(f"iter{number:03d}_{name}", source, GPU_SHAPE, gpu="h200")
    done = checkout.run("build", "--gpu", "h200", "--json")
    return {each["iteration"].partition("_")[2]: each for each in answer(done.stdout)["records"]}


@pytest.mark.parametrize("name", ON_GPU)
def test_what_the_compilers_of_a_gpu_refuse_has_its_line(built_for_gpu: dict[str, Any], name: str) -> None:
    *_, says, shown = ON_GPU[name]
    reason = built_for_gpu[name]["reason"]
    assert says in reason
    assert re.search(rf", at iter\d+_{name}\.py:\d+: {re.escape(shown)}", reason), reason
