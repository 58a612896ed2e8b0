"""Adoption: small examples become operators and kernels, in a child, without a GPU and without a compiler."""

import base64
import sys
import zlib
from collections.abc import Iterator
from hashlib import sha256
from importlib import import_module, metadata
from pathlib import Path

import pytest
import torch

import baselines
from harness.catalog import gpus
from harness.extras.adopt.adoption import AdoptedExample, AdoptPlan, adopt_examples, name_of
from harness.extras.adopt.replay import data, fixed
from harness.extras.adopt.table import LONGEST, FolderRow, folders, shown
from harness.judge.candidate import Settings
from harness.judge.child.trials import compare
from harness.judge.facts.problem import parse_shape_key
from harness.judge.limits import complaint
from harness.operators import OPERATORS, adopt
from tests.harness.checkout import ROOT

pytestmark = pytest.mark.slow  # a child imports torch and TileLang

KERNEL = """
import tilelang, torch
import tilelang.language as T

@tilelang.jit(out_idx=[-1])
def scaled(M, N, factor, dtype="float16"):
    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), W: T.Tensor((N,), "int32"), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(M, threads=128) as row:
            for i in T.Parallel(N):
                Y[row, i] = X[row, i] * factor * W[i]
    return main
"""
SCRIPTS = {
    "plain/example_scale.py": """
x = torch.randn(64, 128, device="cuda", dtype=torch.float16).t().contiguous().t().contiguous()
w = torch.randint(1, 4, (128,), device="cuda", dtype=torch.int32)
torch.testing.assert_close(scaled(64, 128, 2.0)(x, w), x * 2 * w, rtol=0.5, atol=0.5)
""",
    "chain/example_twice.py": """
x = torch.rand(64, 128, device="cuda", dtype=torch.float16)
w = torch.arange(128, device="cuda", dtype=torch.int32)
kernel = scaled(64, 128, 0.5)
y = kernel(kernel(x, w).clone(), w)
assert torch.allclose(y.float(), (x * 0.5 * w * 0.5 * w).float())
""",
    "masked/example_masked.py": """
x = torch.randn(64, 128, device="cuda", dtype=torch.float16)
w = torch.randint(1, 4, (128,), device="cuda", dtype=torch.int32)
y, wanted = scaled(64, 128, 2.0)(x, w), x * 2 * w
torch.testing.assert_close(y.isfinite(), wanted.isfinite())
torch.testing.assert_close(y, wanted)
""",
    "halves/example_halves.py": """
x = torch.randn(64, 128, device="cuda", dtype=torch.float16)
w = torch.randint(1, 4, (128,), device="cuda", dtype=torch.int32)
torch.testing.assert_close(scaled(64, 128, 2.0)(x, w) + 1, x * 2 * w + 1)
""",
    "packed/example_packed.py": """
codes = torch.randint(0, 9, (128,))
w = (codes * 2).to(torch.int32).cuda()
x = torch.randn(64, 128, dtype=torch.float16, device="cuda")
y = scaled(64, 128, 1.0)(x, w)
assert (y - x * (codes.cuda() * 2)).abs().max() < 1
""",
    "dynamic/example_dynamic.py": """
@tilelang.jit(out_idx=[-1])
def shifted(N):
    M = T.dynamic("m")
    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(M, threads=128) as row:
            for i in T.Parallel(N):
                Y[row, i] = X[row, i] + 1
    return main

x = torch.randn(24, 128, device="cuda")
torch.testing.assert_close(shifted(128)(x), x + 1)
""",
    "nibbles/example_nibbles.py": """
@tilelang.jit(out_idx=[-1])
def widened(M, N):
    @T.prim_func
    def main(X: T.Tensor((M, N), "int4"), Y: T.Tensor((M, N), "int32")):
        with T.Kernel(M, threads=128) as row:
            for i in T.Parallel(N):
                Y[row, i] = X[row, i].astype("int32")
    return main

codes = torch.randint(0, 8, (64, 128), dtype=torch.int8, device="cuda")
packed = codes[:, ::2] | codes[:, 1::2] << 4
torch.testing.assert_close(widened(64, 128)(packed), codes.int())
""",
    "words/example_words.py": """
@tilelang.jit(out_idx=[-1])
def halved(M):
    @T.prim_func
    def main(X: T.Tensor((M,), "uint32"), Y: T.Tensor((M,), "uint32")):
        with T.Kernel(1, threads=128) as row:
            for i in T.Parallel(M):
                Y[i] = X[i] >> T.uint32(1)
    return main

x = torch.randint(0, 1 << 32, (256,), device="cuda").to(torch.uint32)
torch.testing.assert_close(halved(256)(x), (x.to(torch.int64) >> 1).to(torch.uint32))
""",
    "rounded/example_rounded.py": """
@tilelang.jit(out_idx=[-1])
def product(M):
    @T.prim_func
    def main(X: T.Tensor((M, M), "float16"), Y: T.Tensor((M, M), "float32")):
        with T.Kernel(M, threads=128) as row:
            for i in T.Parallel(M):
                Y[row, i] = X[row, i]
    return main

x = torch.randn(128, 128, dtype=torch.float16, device="cuda")
torch.testing.assert_close(product(128)(x), (x @ x).float(), rtol=0.1, atol=0.1)
""",
    "added/example_added.py": """
@tilelang.jit
def added(N):
    @T.prim_func
    def main(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32"), Z: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=128) as row:
            for i in T.Parallel(N):
                Y[i] += X[i]
                Z[i] = X[i] * 2
    return main

x, y = torch.randn(128, device="cuda"), torch.randn(128, device="cuda")
z, before = torch.empty_like(x), y.clone()
added(128)(x, y, z)
torch.testing.assert_close(y, before + x)
torch.testing.assert_close(z, x * 2)
""",
    "derived/example_derived.py": """
@tilelang.jit(out_idx=[-1])
def normed(N):
    @T.prim_func
    def main(X: T.Tensor((N,), "float32"), S: T.Tensor((1,), "float32"), W: T.Tensor((N,), "float32"),
             Y: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=128) as row:
            for i in T.Parallel(N):
                Y[i] = X[i] / S[0] * W[i]
    return main

x, w = torch.randn(128, device="cuda"), torch.randn(128, device="cuda")
y = normed(128)(x, x.square().sum(0, keepdim=True), w)
torch.testing.assert_close(y, x / x.square().sum() * w)
""",
    "infinite/example_infinite.py": """
x = torch.randn(64, 128, dtype=torch.float16, device="cuda") * 10000
w = torch.ones(128, dtype=torch.int32, device="cuda")
torch.testing.assert_close(scaled(64, 128, 2.0)(x, w), x * 2 * w)
""",
    "shown/example_shown.py": """
from tilelang.tools.cuda import iket

@tilelang.jit(out_idx=[-1], pass_configs={
    tilelang.PassConfigKey.TL_LAYOUT_VISUALIZATION_ENABLE: True, tilelang.PassConfigKey.TL_DISABLE_TMA_LOWER: True})
def doubled(N):
    @T.prim_func
    def main(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=128) as row, iket.range("all"):
            for i in T.Parallel(N):
                iket.mark("store")
                Y[i] = X[i] * 2
    return main

with iket.session():
    kernel = doubled(128)
x = torch.randn(128, device="cuda")
torch.testing.assert_close(kernel(x), x * 2)
""",
    "newer/example_newer.py": """
if torch.cuda.get_device_capability() < (10, 0):
    raise RuntimeError("SM100 or newer is required")
x, w = torch.randn(32, 128, dtype=torch.float16, device="cuda"), torch.arange(128, dtype=torch.int32, device="cuda")
torch.testing.assert_close(scaled(32, 128, 3.0)(x, w), x * 3 * w)
""",
    "large/example_large.py": "import numpy\nnumpy.zeros(20 << 30, dtype=numpy.uint8)\n",
    "alone/example_alone.py": "scaled(64, 128, 2.0)(torch.ones(64, 128).half(), torch.ones(128).int())\n",
    "broken/example_broken.py": "raise ValueError('no such luck')\n",
}


@pytest.fixture(scope="module")
def adopted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, AdoptedExample]]:
    root, into = tmp_path_factory.mktemp("examples"), tmp_path_factory.mktemp("adopted")
    for place, text in SCRIPTS.items():
        (root / place).parent.mkdir()
        (root / place).write_text(KERNEL + text)
    both = gpus.find("h200"), gpus.find("b200")
    plan = AdoptPlan(root, into, both, Settings(budget_s=0.0), 100, build=False, tilelangs=(".",))
    try:
        found = adopt_examples(plan)
        yield {each.folder: each for each in found}
    finally:
        adopt(ROOT)
        sys.path[:] = [each for each in sys.path if each != str(into)]


def test_a_plain_example_is_an_operator(adopted: dict[str, AdoptedExample]) -> None:
    case = adopted["plain"]
    assert (case.shape_key, case.reason, case.fixed) == ("plainscale_fp16fp32_64x128", None, 0)
    operator, problem = OPERATORS["plainscale"], parse_shape_key(case.shape_key or "")
    assert problem.inputs == ((64, 128), (128,)) and problem.input_dtypes == ("float16", "int32")
    assert problem.outputs == (((64, 128), "float16"),)
    x, w = torch.randn(64, 128), torch.arange(128, dtype=torch.int32)
    (y,) = operator.reference(x, w)
    torch.testing.assert_close(y, x * 2 * w)


def test_limits_are_no_narrower_than_the_scripts_own_precision(adopted: dict[str, AdoptedExample]) -> None:
    """One script rounds its reference to float16 and its output is float32."""
    assert (adopted["rounded"].own_limits, adopted["plain"].own_limits) == (1, 0)
    problem = parse_shape_key(adopted["rounded"].shape_key or "")
    x = problem.fills[0].draw((128, 128), "float16", problem.sizes, torch.Generator().manual_seed(3))
    (right,), (own,) = OPERATORS["rounded"].reference(x.float()), import_module("harness.operators.rounded").computed(x)
    assert complaint(compare("random", problem, own, right)) is None
    assert complaint(compare("random", problem, own + 0.5, right)) is not None


def test_a_reference_that_overflows_is_not_adopted(adopted: dict[str, AdoptedExample]) -> None:
    assert (adopted["infinite"].shape_key, adopted["infinite"].reason) == (
        None,
        "its reference gives values that are not finite at the script's own precision",
    )


def test_what_a_script_holds_stays_on_the_device() -> None:
    """A CUDA graph cannot copy from the CPU. What is written to a copy does not change the next."""
    words = base64.b85encode(zlib.compress(bytes(range(4)))).decode()
    one, other = (data(words, torch.uint8, "cpu") for _ in range(2))
    one.zero_()
    assert other.tolist() == [0, 1, 2, 3]
    assert fixed(_three, torch.device("meta"))[0].device.type == "meta"
    assert fixed(_three, "cpu") is fixed(_three, "cpu")


def _three(seed: int, device: object) -> tuple[torch.Tensor]:
    return (torch.ones(3),)


def test_draws_are_the_scripts_own_distribution(adopted: dict[str, AdoptedExample]) -> None:
    problem = parse_shape_key(adopted["plain"].shape_key or "")
    dice = torch.Generator().manual_seed(1)
    one, other = (problem.fills[1].draw((128,), "int32", problem.sizes, dice) for _ in range(2))
    assert set(one.tolist()) == {1, 2, 3} and not torch.equal(one, other)


def test_what_a_kernel_adds_to_is_written_in_place(adopted: dict[str, AdoptedExample]) -> None:
    problem = parse_shape_key(adopted["added"].shape_key or "")
    assert problem.places == (1, 2) and len(problem.tensors) == 3
    x, y, z = torch.ones(128), torch.full((128,), 3.0), torch.zeros(128)
    baselines.library(problem)(x, y, z)
    assert (y == 4).all() and (z == 2).all()


def test_several_launches_are_judged_together(adopted: dict[str, AdoptedExample]) -> None:
    case = adopted["chain"]
    assert (case.shape_key, case.launches, case.inputs) == ("chaintwice_fp16fp32_64x128", 2, 2)
    text = Path(import_module("kernels.chaintwice").__file__ or "").read_text()
    assert text.count("compiled(") == 2 and "torch.ops.aten.clone" in text


def test_what_the_kernel_makes_is_the_output_and_not_what_torch_makes_of_it(adopted: dict[str, AdoptedExample]) -> None:
    problem = parse_shape_key(adopted["masked"].shape_key or "")
    assert problem.outputs == (((64, 128), "float16"),), "the script also compares which elements are finite"
    assert adopted["halves"].reason == (
        "torch computes a part of what it compares (add), and a kernel is judged by its own work"
    )


def test_what_the_kernel_does_not_get_fixes_the_inputs(adopted: dict[str, AdoptedExample]) -> None:
    """The reference reads the codes, the kernel what is packed from them."""
    case = adopted["packed"]
    assert case.fixed == 1 and case.inputs == 2
    problem = parse_shape_key(case.shape_key or "")
    x, w = (each.draw(shape, dtype, {}, torch.Generator()) for each, (shape, dtype) in zip(
        problem.fills, problem.tensors, strict=False))  # fmt: skip
    torch.testing.assert_close(OPERATORS[problem.operator].reference(x.float(), w)[0], x.float() * w)


def test_an_input_that_the_reference_does_not_read_fixes_what_it_follows_from(
    adopted: dict[str, AdoptedExample],
) -> None:
    """The kernel takes a sum of x, which the reference computes by itself; w has no part in it."""
    assert adopted["derived"].shape_key == "derived_f32fp32_128"
    assert "of its own numbers alone: x0, x1.\n" in (import_module("harness.operators.derived").__doc__ or "")


def test_sizes_that_a_launch_tells_are_bound_by_the_inputs(adopted: dict[str, AdoptedExample]) -> None:
    """Such a kernel is called, not given as a program: the judge compares a program's sizes with the problem's."""
    assert adopted["dynamic"].shape_key == "dynamic_f32fp32_24x128"
    text = Path(import_module("kernels.dynamic").__file__ or "").read_text()
    assert "kernels = {" in text and "torch.empty((24, 128)" in text


def test_a_kernel_of_packed_words_is_called(adopted: dict[str, AdoptedExample]) -> None:
    """Its tensors have another form than its parameters, so no program of it fits the operator."""
    assert adopted["nibbles"].shape_key == "nibbles_int8fp32_64x128"
    problem = parse_shape_key(adopted["nibbles"].shape_key or "")
    assert problem.inputs == ((64, 64),) and problem.outputs == (((64, 128), "int32"),)
    assert "kernels = {" in Path(import_module("kernels.nibbles").__file__ or "").read_text()


def test_words_without_a_sign_are_held_by_their_bits(adopted: dict[str, AdoptedExample]) -> None:
    problem = parse_shape_key(adopted["words"].shape_key or "")
    assert problem.input_dtypes == ("int32",) and problem.outputs == (((256,), "int32"),)
    x = problem.fills[0].draw((256,), "int32", problem.sizes, torch.Generator().manual_seed(2))
    (y,) = OPERATORS["words"].reference(x)
    assert x.min() < 0 and torch.equal(y, (x.long() % (1 << 32) >> 1).int())


def test_what_only_shows_a_kernel_is_left_out(adopted: dict[str, AdoptedExample]) -> None:
    assert adopted["shown"].shape_key == "shown_f32fp32_128"
    module = Path(import_module("kernels.shown").__file__ or "")
    assert "{'tl.disable_tma_lower': True}" in module.read_text()
    (program,) = (module.parent / "adopted").glob("*/shown.*.json")
    assert "TL_IKET" not in program.read_text() and "main" in program.read_text()


def test_a_kernel_is_for_the_first_gpu_that_it_fits(adopted: dict[str, AdoptedExample]) -> None:
    case = adopted["newer"]
    assert (case.gpu, adopted["plain"].gpu, case.reason) == ("b200", "h200", None)
    root = Path(import_module("harness.operators.newer").__file__ or "").parents[1]
    held = sorted(str(each.relative_to(root)) for each in root.glob(f"tuning/*/tilelang/srcs/{case.shape_key}"))
    assert held == [f"tuning/b200/tilelang/srcs/{case.shape_key}"]


def test_other_tilelangs_keep_kernels_too(adopted: dict[str, AdoptedExample], monkeypatch: pytest.MonkeyPatch) -> None:
    own = metadata.version("tilelang")
    assert adopted["plain"].others == {own: None} and adopted["broken"].others == {own: "ValueError: no such luck"}
    programs = import_module("kernels.programs")
    (kept,) = (Path(programs.__file__ or "").parent / "adopted" / own).glob("plainscale.*.json")
    saved = f"{own}/{kept.name}", sha256(kept.read_bytes()).hexdigest(), {"tl.disable_tma_lower": True}, ("-O1",)
    held = {"0.0.1": (saved[0], "another", {}, ()), own: saved}
    assert programs.read(held).compile_flags == ("-O1",)
    monkeypatch.setattr("tilelang.__version__", "0.0.2")
    assert programs.read(held).pass_configs == {"tl.disable_tma_lower": True}  # the last is the adopting TileLang's
    monkeypatch.setattr("tilelang.__version__", "0.0.1")
    with pytest.raises(ValueError, match=rf"^{own}/{kept.name} is not what adopt wrote; adopt the example again$"):
        programs.read(held)


def test_reasons(adopted: dict[str, AdoptedExample]) -> None:
    assert adopted["alone"].reason == "it compares what its kernel makes with nothing"
    assert adopted["broken"].reason == "ValueError: no such luck"
    assert (adopted["large"].reason or "").startswith("MemoryError: ")


def test_an_iteration_lies_beside_its_baseline(adopted: dict[str, AdoptedExample]) -> None:
    root = Path(import_module("harness.operators.plainscale").__file__ or "").parents[1]
    folder = root / "tuning/h200/tilelang/srcs/plainscale_fp16fp32_64x128/example"
    assert sorted(each.name for each in folder.glob("*.py")) == [
        "iter000_reference_plainscale.py",
        "iter001_as_it_is.py",
    ]


def test_a_layout_survives_the_file() -> None:
    """TileLang knows a layout's variables by identity: as it is loaded, the shape of its result is no number."""
    from tilelang import tvm
    from tilelang.layout import Layout

    from harness.extras.adopt.programs import _anew

    layout = Layout([64, 64], lambda i, j: [i // 8, i % 8 * 64 + j])
    loaded = tvm.ir.load_json(tvm.ir.save_json(layout))
    assert [str(size) for size in _anew(loaded).get_output_shape()] == ["8", "512"]
    assert [str(size) for size in loaded.get_output_shape()] != ["8", "512"]


def test_names() -> None:
    assert name_of(AdoptedExample("topk", "topk/test_topk_tilelang.py", "test_topk_rows")) == "topkrows"
    assert name_of(AdoptedExample("gemm", "gemm/example_gemm.py", None)) == "gemmexample"  # a family's name
    assert name_of(AdoptedExample("topk", "topk/example_topk.py", None)) == "topkexample"  # an operator's
    assert name_of(AdoptedExample("x", "3d/example.py", None)) == "x3d"


def test_the_table_says_why(adopted: dict[str, AdoptedExample]) -> None:
    built = AdoptedExample("a", "a/x.py", None, "x_fp16fp32_1", launches=1, inputs=2, fixed=1, built=True, gpu="h200")
    refused = AdoptedExample("b", "b/y.py", None, reason="it compares nothing")
    assert FolderRow("a", [built]).note == "1 of 2 inputs are the script's own"
    assert folders([refused, built], "github").splitlines()[2:] == [
        "| a      |     1 |     1 |     1 | h200 | 1 of 2 inputs are the script's own |",
        "| b      |     1 |     0 |     0 |      | it compares nothing (1)            |",
    ]
    assert shown("one " * 30) == " ".join(["one"] * LONGEST) + "…" and shown(f"{'x' * 900} is gone") == "is gone"
