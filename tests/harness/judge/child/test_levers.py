"""What a kernel was really made with is held to CONFIG, wherever the difference comes from."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tilelang
import torch
from tilelang.jit import JITImpl
from tilelang.language.eager import builder

import kernels.cpu
from harness.catalog import gpus
from harness.judge.child.contestant import load
from harness.judge.child.kernel import target_of
from harness.judge.child.levers import Levers, plain
from harness.judge.facts.problem import parse_shape_key
from harness.judge.facts.program import Program

PROBLEM = parse_shape_key("matmul_f32fp32_64x64x64")
FAMILY = """
from kernels.cpu import scalar_gemm
CONFIG = dict(block_M=16, block_N=16, block_K=16)
def build(problem):
    return scalar_gemm(problem, **CONFIG)
"""
INLINE = """
import tilelang.cpu.language as T
CONFIG = dict(step=1)
def build(problem):
    M, N, K = problem.dims
    step = CONFIG["step"]
    @T.prim_func
    def kernel(A: T.Tensor((M, K), "float32"), B: T.Tensor((K, N), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(1):
            for i, j in T.grid(M // step, N):
                C[i, j] = 0.0
    return kernel
"""
EAGER = """
import tilelang
import tilelang.cpu.language as T
CONFIG = dict(step=1)
@tilelang.jit(target="c")
def gemm(A, B, C, step=1):
    M, N, K = T.const("M N K")
    A: T.Tensor[[M, K], T.float32]
    B: T.Tensor[[K, N], T.float32]
    C: T.Tensor[[M, N], T.float32]
    with T.Kernel(1):
        for i, j in T.grid(M // step, N):
            C[i, j] = 0.0
def build(problem):
    return gemm
"""


@pytest.fixture
def _unpatched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give back what Levers replaces in this process; as a contestant it has no cache of kernels."""
    monkeypatch.setattr(builder, "mutate", builder.mutate)
    monkeypatch.setattr(JITImpl, "get_tir", JITImpl.get_tir)
    monkeypatch.setattr(tilelang.JITKernel, "__init__", tilelang.JITKernel.__init__)
    monkeypatch.setattr(kernels.cpu, "scalar_gemm", kernels.cpu.scalar_gemm)
    tilelang.disable_cache()
    yield
    tilelang.enable_cache()


def complaint(path: Path, source: str) -> str:
    path.write_text(source)
    levers, cpu = Levers(path), gpus.find("cpu")
    with target_of(cpu):
        module = load(path)
        made = module.build(PROBLEM)
        if isinstance(made, JITImpl):
            made.get_tir(*(torch.empty(64, 64, device="meta") for _ in range(3)))
    levers.note_config(module)
    return levers.complaint()


@pytest.mark.usefixtures("_unpatched")
@pytest.mark.parametrize("source", [FAMILY, INLINE, EAGER])
def test_what_config_pins_is_what_is_made(tmp_path: Path, source: str) -> None:
    assert complaint(tmp_path / "iter001_as_pinned.py", source) == ""


@pytest.mark.usefixtures("_unpatched")
@pytest.mark.parametrize(
    ("source", "old", "new", "said"),
    [
        (
            FAMILY,
            "    return",
            "    CONFIG['block_M'] = 32\n    return",
            "CONFIG pins block_M=16, and scalar_gemm(…) has 32",
        ),
        (FAMILY, "**CONFIG", "**{**CONFIG, 'block_K': 32}", "CONFIG pins block_K=16, and scalar_gemm(…) has 32"),
        (FAMILY, "    return", "    for block_N in (32, 16):\n        CONFIG['block_N'] = block_N\n    return", ""),
        (
            FAMILY,
            "    return",
            "    best = min(scalar_gemm(problem, **{**CONFIG, 'block_N': n}) and n for n in (32, 16))\n    return",
            "CONFIG pins block_N=16, and scalar_gemm(…) has 32",
        ),
        (INLINE, "def build", "CONFIG['unroll'] = 4\ndef build", "CONFIG as the file left it has unroll=4"),
        (
            "from kernels.cpu import scalar_gemm as hidden\n" + FAMILY,
            "    return scalar_gemm(problem, **CONFIG)",
            "    from kernels import cpu\n    return cpu.scalar_gemm(problem, **(CONFIG | {'block_M': 32}))",
            "CONFIG pins block_M=16, and scalar_gemm(…) has 32",
        ),
        (INLINE, 'step = CONFIG["step"]', "step = 2", "CONFIG pins step=1, and the kernel kernel has 2"),
        (EAGER, "step=1):", "step=2):", "CONFIG pins step=1, and gemm(…) has 2"),
    ],
)
def test_another_lever_is_named(tmp_path: Path, source: str, old: str, new: str, said: str) -> None:
    path = tmp_path / "iter001_other.py"
    found = complaint(path, source.replace(old, new))
    assert said in found
    assert bool(said) == bool(found)


COMPILED = INLINE.replace("dict(step=1)", "dict(step=1, compile_flags=('-O3',))").replace(
    "    return kernel\n", "    return tilelang.compile(kernel, target='c', compile_flags=FLAGS)\n"
)


@pytest.mark.usefixtures("_unpatched")
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("['-O3']", ""),
        ("['-O0']", "CONFIG pins compile_flags=('-O3',), and TileLang's compiler has ['-O0']"),
        ("{'-O0': 1}.keys()", "CONFIG pins compile_flags=('-O3',), and TileLang's compiler has ['-O0']"),
        ("(each for each in ['-O0'])", "CONFIG pins compile_flags=('-O3',), and TileLang's compiler has ['-O0']"),
        ("None", "CONFIG pins compile_flags=('-O3',), and TileLang's compiler has []"),
    ],
)
def test_the_flags_that_a_compiler_gets_are_those_of_config(tmp_path: Path, flags: str, said: str) -> None:
    assert complaint(tmp_path / "iter001_flags.py", f"import tilelang\nFLAGS = {flags}{COMPILED}") == said


def test_a_programs_options_are_read_once() -> None:
    flags: Any = (each for each in ("-O3",))
    assert plain(Program(None, {}, flags)) == Program(None, {}, ("-O3",))


def test_a_program_of_a_class_of_its_own_is_refused() -> None:
    class Sly(Program):
        @property
        def compile_flags(self) -> tuple[str, ...]:
            return ("-O0",)

    with pytest.raises(TypeError, match="build.. returned Sly, a class of its own; return a Program itself"):
        plain(object.__new__(Sly))


@pytest.mark.usefixtures("_unpatched")
def test_a_literal_beside_config_is_pinned_and_a_computed_lever_is_not(tmp_path: Path) -> None:
    path = tmp_path / "iter001_beside.py"
    three = FAMILY.replace(", block_K=16", "")
    assert complaint(path, three.replace("**CONFIG", "**CONFIG, block_K=16")) == ""
    found = complaint(path, three.replace("**CONFIG", "**CONFIG, block_K=len(CONFIG) * 8"))
    assert found == "scalar_gemm(…) has block_K=16, which CONFIG does not pin"
