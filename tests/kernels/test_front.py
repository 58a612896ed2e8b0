"""matmul and linear as users call them: right, checked, compiled once, differentiable, traceable."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.autograd import forward_ad

import kernels
from harness.errors import UsageError
from harness.iteration import Program, Workspace
from harness.judge.facts.problem import DTYPE_BYTES, Problem, parse_shape_key
from harness.machine import cores
from kernels import linear, matmul, warm_up
from kernels.front import draws, fit, launches, measure, op
from kernels.front.choice import Choice
from kernels.front.defaults import LEAST_FILL, UNMEASURED, default
from kernels.front.library import library_of, library_tile, tile_of
from kernels.front.model import FOLDER, LOSS, model
from kernels.front.pinned import REGIME, pinned, publication
from kernels.front.places import Place, place, recognise
from kernels.front.timing import Launch
from tests.lanes import few

CPU = torch.device("cpu")
HOPPER = Place(torch.device("cuda", 0), "h200", "sm_90a", 132)
REGISTERS = "kernels.cpu.register_blocked"


def normal(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator).to(dtype)


def is_right(found: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> bool:
    expected = a.double() @ b.double()
    bound = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}[found.dtype]
    return found.shape == expected.shape and bool((found - expected).norm() <= bound * expected.norm())


# Right


@pytest.mark.parametrize(
    ("M", "N", "K", "family"),
    [
        (16, 64, 32, True),
        (33, 32, 70, True),
        (8, 96, 521, False),  # a prime leaves no deep panel
        (1, 64, 32, False),
        (5, 7, 3, False),
        (17, 1, 31, False),
    ],
)
@pytest.mark.skipif(torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"), reason="no register tiles here")
def test_any_shape_is_right(M: int, N: int, K: int, family: bool) -> None:
    a, b, w = normal(M, K), normal(K, N), normal(N, K)
    for operator in ("matmul", "linear"):
        problem = Problem(operator, "float32", "float32", "float32", (M, N, K))
        assert (default(problem, place(CPU)).family == REGISTERS) == family
    assert is_right(matmul(a, b), a, b)
    assert is_right(linear(a, w), a, w.t())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_other_dtypes_are_right(dtype: torch.dtype) -> None:
    a, b = normal(16, 64, dtype=dtype), normal(64, 32, dtype=dtype)
    found = matmul(a, b)
    assert found.dtype is dtype
    assert is_right(found, a, b)


@pytest.mark.parametrize("shape", [(32,), (2, 32), (2, 5, 32), (1, 1, 1, 32), (0, 32), (3, 0, 32)])
def test_leading_dimensions_are_rows(shape: tuple[int, ...]) -> None:
    a, w = normal(*shape), normal(64, 32)
    found = linear(a, w)
    assert is_right(found, a, w.t())
    assert found.is_contiguous()


@pytest.mark.parametrize(("M", "N", "K"), [(0, 4, 4), (4, 0, 4), (4, 4, 0)])
def test_nothing_to_compute(M: int, N: int, K: int) -> None:
    found = matmul(normal(M, K), normal(K, N))
    assert found.shape == (M, N)
    assert not found.any()


@pytest.mark.parametrize(("leading", "N", "K"), [((2, 3), 5, 0), ((), 5, 0), ((2, 3), 0, 4), ((2, 0), 5, 4)])
def test_a_linear_layer_of_nothing_is_torch_s(leading: tuple[int, ...], N: int, K: int) -> None:
    a, w = normal(*leading, K).requires_grad_(), normal(N, K).requires_grad_()
    found, expected = linear(a, w), torch.nn.functional.linear(a, w)
    assert torch.equal(found, expected)
    for ours, theirs in zip(
        torch.autograd.grad(found.sum(), (a, w)), torch.autograd.grad(expected.sum(), (a, w)), strict=True
    ):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("dims", [(16, 64, 32), (5, 7, 3)])
def test_into_a_given_output(dims: tuple[int, int, int]) -> None:
    M, N, K = dims
    a, b, w = normal(M, K), normal(K, N), normal(N, K)
    for _ in range(2):
        out = torch.full((M, N), float("nan"))
        assert matmul(a, b, out=out) is out
        assert is_right(out, a, b)
    deep, out = normal(2, M, K), torch.full((2, M, N), float("nan"))
    assert linear(deep, w, out=out) is out
    assert is_right(out, deep, w.t())


def test_outputs_have_memory_of_their_own() -> None:
    a, b = normal(16, 32), normal(32, 64)
    first, second = matmul(a, b), matmul(-a, b)
    assert torch.equal(first, -second)


def test_the_meta_device_has_shapes() -> None:
    a, b = torch.empty(16, 32, device="meta"), torch.empty(32, 64, device="meta")
    matmul(normal(16, 32), normal(32, 64))  # an entry of the same shapes on the CPU
    found = matmul(a, b)
    assert found.is_meta and found.shape == (16, 64)
    assert linear(torch.empty(2, 3, 32, device="meta"), torch.empty(64, 32, device="meta")).shape == (2, 3, 64)
    out = torch.empty(16, 64, device="meta")
    assert matmul(a, b, out=out) is out


# Refused

A, B, W, SQUARE = normal(16, 32), normal(32, 64), normal(64, 32), normal(32, 32)
NO_TENSOR: Any = [1.0]


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: matmul(NO_TENSOR, B), TypeError, "matmul: a is a list; give it a torch.Tensor"),
        (lambda: linear(A, NO_TENSOR), TypeError, "linear: w is a list; give it a torch.Tensor"),
        (lambda: matmul(A, B.half()), TypeError, "a is torch.float32 and b is torch.float16; cast one"),
        (lambda: matmul(A.double(), B.double()), TypeError, "torch.float64 is not supported; cast to torch.bfloat16"),
        (lambda: matmul(A, B.to("meta")), ValueError, "a is on cpu and b on meta; move one"),
        (lambda: matmul(A, A), ValueError, r"a is \[16,32\] and b is \[16,32\]; columns of a and rows of b .*linear"),
        (lambda: matmul(A, normal(31, 64)), ValueError, "columns of a and rows of b must be equal$"),
        (lambda: linear(A, B), ValueError, r"columns of a and of w must be equal; matmul takes \[K,N\]"),
        (lambda: matmul(normal(2, 16, 32), B), ValueError, "flatten batches, as linear does"),
        (lambda: linear(A, normal(32)), ValueError, r"it takes \[..., K\] and a matrix"),
        (lambda: matmul(A, W.t()), ValueError, r"b is a transposed view; call linear\(a, b.t\(\)\)"),
        (lambda: linear(A, B.t()), ValueError, r"w is a transposed view; call matmul\(a, w.t\(\)\)"),
        (
            lambda: matmul(normal(16, 64)[:, ::2], B),
            ValueError,
            r"a is not contiguous \(strides 64,2\); pass a.contiguous\(\)",
        ),
        (lambda: matmul(A, B, out=NO_TENSOR), TypeError, "out is a list; give it a torch.Tensor"),
        (lambda: matmul(A, B, out=normal(16, 64).half()), ValueError, "out is torch.float16 on cpu, the inputs are"),
        (lambda: matmul(A, B, out=normal(16, 63)), ValueError, r"out is \[16,63\], the product is \[16,64\]"),
        (lambda: matmul(A, B, out=normal(64, 16).t()), ValueError, "out is not contiguous; copy the product into it"),
        (lambda: matmul(SQUARE, SQUARE, out=SQUARE), ValueError, "out lies in the memory of a; give it memory"),
        (lambda: matmul(normal(32, 32), SQUARE, out=SQUARE), ValueError, "out lies in the memory of b"),
        (lambda: matmul(A.clone().requires_grad_(), B, out=normal(16, 64)), ValueError, "out= has no gradient"),
        (lambda: matmul(A, B, out=normal(16, 64).requires_grad_()), ValueError, "out= has no gradient"),
    ],
)
def test_wrong_arguments_have_their_sentence(call: Callable[[], Any], error: type[Exception], sentence: str) -> None:
    matmul(A, B), linear(A, W)
    for _ in range(2):
        with pytest.raises(error, match=sentence) as raised:
            call()
        assert "\n" not in str(raised.value)


def test_a_slice_that_shares_memory_with_the_output_is_refused() -> None:
    memory = normal(3 * 32 * 32).clone()
    a, out = memory[: 32 * 32].view(32, 32), memory[32 * 32 - 1 : 2 * 32 * 32 - 1].view(32, 32)
    with pytest.raises(ValueError, match="out lies in the memory of a"):
        matmul(a, SQUARE, out=out)
    matmul(a, SQUARE, out=memory[32 * 32 : 2 * 32 * 32].view(32, 32))


# Compiled once


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[Problem]:
    made: list[Problem] = []
    compiled = launches._compiled

    def counting(problem: Problem, choice: Choice, where: Place) -> Launch:
        made.append(problem)
        return compiled(problem, choice, where)

    monkeypatch.setattr(launches, "_compiled", counting)
    return made


def test_a_second_call_compiles_nothing(compilations: list[Problem]) -> None:
    a, b, deep = normal(24, 48), normal(48, 32), normal(2, 12, 48)
    for _ in range(3):
        matmul(a, b)
        matmul(a, b, out=torch.empty(24, 32))
    w = normal(32, 48)
    linear(a, w), linear(deep, w)  # the same problem
    assert [str(problem) for problem in compilations] == ["matmul_f32fp32_24x32x48", "linear_f32fp32_24x32x48"]


def test_threads_at_once_wait_for_one_compilation(compilations: list[Problem]) -> None:
    a, b = normal(40, 48), normal(48, 32)
    begin, found = threading.Barrier(8), [torch.empty(0)] * 8

    def call(index: int) -> None:
        begin.wait()
        found[index] = matmul(a, b)

    threads = [threading.Thread(target=call, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(compilations) == 1
    assert all(is_right(each, a, b) for each in found)


def test_warm_up_compiles_ahead_and_says_what_it_took(compilations: list[Problem]) -> None:
    keys = "matmul_f32fp32_56x32x48", "linear_f32fp32_3x5x7"
    said = warm_up(*keys, device="cpu")
    assert list(said) == list(keys)
    assert said[keys[0]].startswith(REGISTERS)
    assert said[keys[1]].startswith("the library: ")
    assert len(compilations) == 1
    matmul(normal(56, 48), normal(48, 32))
    assert len(compilations) == 1


def test_warm_up_compiles_several_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "jobs", lambda: 2)
    monkeypatch.setattr(launches, "_launches", {})
    both = threading.Barrier(2, timeout=60)

    def meeting(problem: Problem, choice: Choice, where: Place) -> Launch:
        both.wait()  # raises where the other is not there
        return library_of(problem)

    monkeypatch.setattr(launches, "_compiled", meeting)
    assert len(warm_up("matmul_f32fp32_72x32x48", "matmul_f32fp32_80x32x48", device="cpu")) == 2


@pytest.mark.parametrize(
    "key", ["matmul_f32fp32_8x8", "add_f32fp32_64", "linear_e4m3fp32_64x64x64", "linear_bf16fp32f32_8x8x8"]
)
def test_warm_up_takes_what_a_call_could_use(key: str) -> None:
    with pytest.raises(UsageError, match=key):
        warm_up(key, device="cpu")


def test_nothing_compiles_while_a_graph_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launches, "place", lambda device: HOPPER)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    problem = parse_shape_key("matmul_bf16fp32_2048x2048x2048")
    with pytest.raises(RuntimeError, match=rf"call it once before, or kernels.warm_up\('{problem}'\)"):
        launches.launch_of(problem, HOPPER.device)
    odd = parse_shape_key("matmul_bf16fp32_2048x2047x2048")  # the library's, which needs no compiling
    launches.launch_of(odd, HOPPER.device)


def test_a_family_needs_nothing_of_the_front() -> None:
    code = "import sys, kernels.gemm, kernels.cpu; sys.exit('kernels.front' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        kernels.nothing  # noqa: B018


# On a GPU, as far as it goes without one


def test_workspaces_belong_to_a_stream_or_to_one_launch_in_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    state: dict[str, Any] = {"stream": 1, "capturing": False}
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: state["capturing"])
    monkeypatch.setattr(
        torch.cuda, "current_stream", lambda device: type("Stream", (), {"cuda_stream": state["stream"]})
    )
    got: list[torch.Tensor] = []
    program = Program(None, workspaces=(Workspace((2, 3), "int32"),))
    launch = launches._with_workspaces(lambda a, b, out, flags: got.append(flags), program, CPU)
    for stream, capturing in ((1, False), (1, False), (2, False), (1, True), (1, True)):
        state.update(stream=stream, capturing=capturing)
        launch(A, A, A)
    same, again, other, captured, once_more = (each.data_ptr() for each in got)
    assert same == again
    assert len({same, other, captured, once_more}) == 4
    assert not got[0].any() and got[0].shape == (2, 3)


def test_an_address_that_tma_cannot_take_goes_to_the_library() -> None:
    problem = parse_shape_key("matmul_bf16fp32_16x32x64")
    calls: list[object] = []
    launch = launches._on_gpu(lambda *tensors: calls.append(tensors), problem, CPU)
    memory = normal(16 * 64 + 1, dtype=torch.bfloat16)
    b, out = normal(64, 32, dtype=torch.bfloat16), torch.empty(16, 32, dtype=torch.bfloat16)
    launch(memory[:-1].view(16, 64), b, out)
    assert len(calls) == 1
    slid = memory[1:].view(16, 64)
    launch(slid, b, out)
    assert len(calls) == 1
    assert is_right(out, slid, b)


@pytest.mark.parametrize(
    ("name", "capability", "sms", "key", "arch"),
    [
        ("NVIDIA H200", (9, 0), 132, "h200", "sm_90a"),
        ("NVIDIA H200 MIG 3g.71gb", (9, 0), 60, None, "sm_90a"),
        ("NVIDIA H100 PCIe", (9, 0), 114, None, "sm_90a"),
        ("NVIDIA A100-SXM4-80GB", (8, 0), 108, "a100", "sm_80"),
        ("NVIDIA GeForce RTX 5090", (12, 0), 170, None, None),
    ],
)
def test_which_gpu_it_is(name: str, capability: tuple[int, int], sms: int, key: str | None, arch: str | None) -> None:
    assert recognise(name, capability, sms) == (key, arch)


def test_a_winner_of_this_gpu_comes_before_the_default() -> None:
    problem = next(each for each in map(parse_shape_key, publication("h200").winners) if each.operator == "matmul")
    winner = pinned(problem, "h200")
    assert winner is not None and "H200" in winner.why
    assert launches.choose(problem, HOPPER) == winner
    slice_of_it = Place(HOPPER.device, None, "sm_90a", 114)
    assert launches.choose(problem, slice_of_it) == default(problem, slice_of_it) != winner
    assert pinned(problem, "a100") is None and pinned(problem, None) is None
    other = pinned(problem, "h100")
    assert other is None or "H100" in other.why


def test_the_named_regime_picks_the_winner(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third, *_ = publication("h200").winners
    paired = publication("h200").winners[first]
    at_limit = msgspec.structs.replace(paired, iteration="me/iter099_cooler", ratio=1.2)
    said = msgspec.structs.replace(publication("h200"), sustained={first: at_limit, second: "it spends less energy"})
    monkeypatch.setattr("kernels.front.pinned.publication", lambda _: said)

    def chosen(key: str) -> Choice:
        found = pinned(parse_shape_key(key), "h200")
        assert found is not None
        return found

    for regime in ("", "paired"):
        monkeypatch.setenv(REGIME, regime)
        assert paired.iteration in chosen(first).why and chosen(second).family is not None
    monkeypatch.setenv(REGIME, "sustained")
    assert chosen(first).why.startswith("me/iter099_cooler on ") and "1.2000" in chosen(first).why
    assert chosen(second) == Choice("it spends less energy")
    assert said.winners[third].iteration in chosen(third).why
    monkeypatch.setenv(REGIME, "fast")
    with pytest.raises(UsageError, match=r"^TILEBENCH_REGIME is 'fast'; set it to paired or sustained, or unset it$"):
        pinned(parse_shape_key(first), None)


@pytest.mark.parametrize(
    ("shape_key", "family", "levers"),
    [
        ("linear_bf16fp32_3212x4968x512", "kernels.gemm.warp_specialized", {"block_N": 256, "num_sms": 132}),
        ("matmul_fp16fp32_8192x8192x512", "kernels.gemm.ping_pong", {"block_N": 192, "num_sms": 132}),
        ("linear_bf16fp32_1536x32768x512", "kernels.gemm.ping_pong", {"block_N": 192}),
        ("linear_bf16fp32_8192x9216x3072", "kernels.gemm.ping_pong", {"block_N": 208}),  # 1.05 is expected
        ("linear_bf16fp32_1108x12032x1792", None, {}),  # 1.05 too, but so few rows err farther: 0.92 is possible
        ("linear_bf16fp32_8192x3584x4096", "kernels.gemm.warp_specialized", {"block_N": 256}),  # 1.03 ± 0.01
        ("linear_bf16fp32_8192x8192x8192", None, {}),  # 1.02 is expected, but 0.98 is possible
        ("matmul_bf16fp32_5000x5000x5000", None, {}),  # pitches of 10,000 bytes, and the library's tiles fit better
        ("linear_bf16fp32_3000x2560x9728", None, {}),  # 89% filled, where the library fills 98%
        ("linear_bf16fp32_32x8192x4096", None, {}),  # fewer rows than were measured
        ("linear_bf16fp32_1x8192x4096", None, {}),
        ("matmul_bf16fp32_512x512x4096", None, {}),  # 16 tiles: the library splits K
        ("matmul_bf16fp32_4096x4100x4096", None, {}),  # a pitch of 8200 bytes
        ("matmul_f32fp32_4096x4096x4096", None, {}),
    ],
)
def test_defaults_on_hopper(shape_key: str, family: str | None, levers: dict[str, Any]) -> None:
    chosen = default(parse_shape_key(shape_key), HOPPER)
    assert chosen.family == family
    assert {name: chosen.levers.get(name) for name in levers} == levers


MEASURED = model("h200")
assert MEASURED is not None


def test_the_model_is_what_its_records_give() -> None:
    assert (FOLDER / "h200.json").read_text() == fit.text("h200")


def test_no_record_that_the_model_was_sure_of_is_a_loss() -> None:
    said = json.loads((FOLDER / "h200.json").read_text())
    for each in said["fits"].values():
        assert each["left_out"]["least"] >= LOSS
        for line in each["lines"].values():
            assert line["error"] <= fit.ERROR_MAX and line["records"] >= fit.LEAST_RECORDS


def test_the_library_s_tile_decides_where_it_is_known() -> None:
    assert MEASURED is not None
    problem = parse_shape_key("linear_bf16fp32_2741x3072x3072")
    fits, wastes = (MEASURED.best(problem, tile) for tile in ((256, 128), (256, 80)))
    assert fits is not None and wastes is not None and fits.ratio < wastes.ratio and fits.low < 1 < wastes.low


@pytest.mark.parametrize(
    ("kernel", "tile"),
    [
        ("nvjet_tst_256x152_64x4_2x1_v_bz_coopA_TNT", (256, 152)),
        ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_nn", (128, 64)),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x128x64_warpgroupsize1x1x1_execute", (64, 128)),
        ("void gemvx::kernel<int, int, __nv_bfloat16>", None),
    ],
)
def test_a_kernel_s_name_has_its_tile(kernel: str, tile: tuple[int, int] | None) -> None:
    assert tile_of(kernel) == tile


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU answers")
def test_without_a_gpu_no_tile_is_known() -> None:
    assert library_tile(parse_shape_key("linear_bf16fp32_8192x4096x4096"), HOPPER.device) is None


def test_products_are_drawn_by_their_seed_in_pitches_that_tma_takes() -> None:
    drawn = draws.draw(7, 60)
    assert drawn == draws.draw(7, 60) != draws.draw(8, 60)
    assert not any(shape[-1] % 8 for problem in drawn for shape, _ in problem.tensors)
    assert len({problem.dims[1] % 64 for problem in drawn}) > 1


def test_of_the_candidates_named_those_are_drawn_that_fit_the_waves_best() -> None:
    names = ["turns144", "wide256", "turns208", "tall160"]
    long, matmul = (parse_shape_key(f"{each}_bf16fp32_8192x9216x3072") for each in ("linear", "matmul"))
    assert draws.fitting(long, names) == ["wide256", "turns208"]  # 17.5 and 21.8 waves; small tiles weigh less
    assert draws.fitting(matmul, names) == ["wide256"]  # others load its B in short rows
    assert draws.fitting(parse_shape_key("linear_bf16fp32_200x9216x3072"), names) == []
    assert draws.fitting(parse_shape_key("linear_bf16fp32_8192x9208x3064"), names) == []


def test_a_measurement_goes_on_where_it_stopped() -> None:
    jobs = [{"key": key, "candidates": ["default", "wide256"]} for key in ("first", "second", "third")]
    records: list[dict[str, Any]] = [
        {"key": "first", "ratios": {"wide256": [1.0, 0.1]}},
        {"key": "first", "ratios": {}},
        {"key": "second", "ratios": {"default": [1.0, 0.1]}, "failed": {"wide256": "off by 1"}},
    ]
    assert measure.missing(jobs, records) == [jobs[2]]
    assert measure.missing(jobs, records[:1])[0] == {"key": "first", "candidates": ["default"]}


def test_a_measurement_is_summed_up() -> None:
    ratios: dict[str, dict[str, list[float]]] = {"linear_bf16fp32_8x8x8": {"default": [0.9, 0.01]}}
    ratios |= {"linear_bf16fp32_8x8x16": {}}
    said = measure.summary([{"key": key, "ratios": each} for key, each in ratios.items()])
    assert said == "products: own 1 of 2, geomean 0.9000, worst 0.9000, below 0.99: ['linear_bf16fp32_8x8x8']"


def test_a_model_is_sure_by_its_error_alone() -> None:
    """The same expectation, twice: with an error that leaves it ahead, and with one that does not."""
    assert MEASURED is not None
    problem = parse_shape_key("linear_bf16fp32_1536x32768x512")
    sure = MEASURED.best(problem)
    assert sure is not None and 1 < sure.low < sure.ratio
    fit = MEASURED.fits[False]
    lines = {name: replace(line, error=10 * line.error) for name, line in fit.lines.items()}
    unsure = replace(MEASURED, fits={False: replace(fit, lines=lines)}).best(problem)
    assert unsure is not None and unsure.low < 1


def test_on_a_gpu_that_nobody_measured_the_library_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = parse_shape_key("linear_bf16fp32_1536x32768x512")
    other = Place(torch.device("cuda", 0), None, "sm_90a", 114)
    assert "nothing is measured on this GPU" in default(problem, other).why
    monkeypatch.setenv(UNMEASURED, "1")
    assert default(problem, other).levers["num_sms"] == 114


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_100a"])
def test_where_nothing_is_measured_the_library_is_called(arch: str) -> None:
    chosen = default(parse_shape_key("matmul_bf16fp32_4096x4096x4096"), Place(torch.device("cuda", 0), None, arch, 108))
    assert chosen.family is None
    assert f"nothing is measured on {arch}; {UNMEASURED}=1 takes" in chosen.why


PLACES = [
    Place(torch.device("cuda", 0), None, arch, sms)
    for arch, sms in (("sm_80", 108), ("sm_86", 84), ("sm_89", 128), ("sm_90a", 132), ("sm_90a", 60), ("sm_100a", 148))
]


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(UNMEASURED, "1")


@pytest.mark.usefixtures("unmeasured")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(("matmul", "linear")),
    st.sampled_from(("bfloat16", "float16", "float32")),
    st.tuples(*[st.one_of(st.integers(0, 300), st.integers(0, 2000).map(lambda each: 8 * each))] * 3),
    st.sampled_from([*PLACES, place(CPU), Place(torch.device("cuda", 0), None, None, 10)]),
)
def test_every_problem_has_a_default(operator: str, dtype: str, dims: tuple[int, int, int], where: Place) -> None:
    problem = Problem(operator, dtype, "float32", dtype, dims)
    chosen = default(problem, where)
    assert "\n" not in str(chosen)
    if chosen.family is None or where.device.type == "cpu":
        return
    assert DTYPE_BYTES[dtype] == 2 and not any(shape[-1] % 8 for shape, _ in problem.tensors)
    chosen.program(problem)  # the family's own checks, and its tracing
    blocks = -(-dims[0] // chosen.levers["block_M"]) * -(-dims[1] // chosen.levers["block_N"])
    least = LEAST_FILL if where.arch != "sm_90a" else fit.LEAST["fill"]
    assert blocks >= least * where.sms or where.sms < 132


# In torch


@pytest.mark.parametrize("backend", few(["aot_eager", "inductor"], "aot_eager"))
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")  # inductor's own
def test_torch_compile_takes_it_whole(backend: str) -> None:
    def layer(a: torch.Tensor, b: torch.Tensor, w: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        matmul(a, b, out=out)
        return linear(torch.relu(matmul(a, b)) + out, w)

    torch.compiler.reset()
    a, b, w, out = normal(16, 32), normal(32, 64), normal(48, 64), torch.empty(16, 64)
    found = torch.compile(layer, backend=backend, fullgraph=True)(a, b, w, out)
    assert is_right(out, a, b)
    assert is_right(found, torch.relu(matmul(a, b)) + out, w.t())


def test_torch_compile_with_free_sizes() -> None:
    torch.compiler.reset()
    compiled = torch.compile(lambda a, w: linear(a, w) + 1, backend="aot_eager", fullgraph=True, dynamic=True)
    for M in (5, 6, 9):
        a, w = normal(2, M, 24), normal(20, 24)
        assert torch.equal(compiled(a, w), linear(a, w) + 1)


def test_torch_compile_says_what_is_wrong() -> None:
    torch.compiler.reset()
    with pytest.raises(Exception, match="columns of a and rows of b must be equal"):
        torch.compile(matmul, backend="aot_eager", fullgraph=True)(A, A)


def gradients(call: Callable[..., torch.Tensor], *tensors: torch.Tensor) -> list[torch.Tensor]:
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    weights = normal(*call(*leaves).shape, seed=1)
    return list(torch.autograd.grad((call(*leaves) * weights).sum(), leaves))


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_are_those_of_torch(compiled: bool) -> None:
    torch.compiler.reset()

    def made(call: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        return torch.compile(call, backend="aot_eager", fullgraph=True) if compiled else call

    for found, expected in (
        (gradients(made(matmul), A, B), gradients(torch.matmul, A, B)),
        (gradients(made(linear), A, W), gradients(torch.nn.functional.linear, A, W)),
        (
            gradients(made(linear), normal(2, 3, 32), W),
            gradients(torch.nn.functional.linear, normal(2, 3, 32), W),
        ),
    ):
        for ours, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_autograd_sees_that_an_output_was_overwritten() -> None:
    x, out = normal(16, 64).requires_grad_(), normal(16, 64)
    y = (x * out).sum()
    matmul(A, B, out=out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # by what torch imports for it
def test_forward_mode_is_refused_and_not_lost() -> None:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(A, torch.ones_like(A))
        with pytest.raises(ValueError, match="matmul: it has no forward-mode gradient"):
            matmul(dual, B)
        with pytest.raises(ValueError, match="linear: it has no forward-mode gradient"):
            linear(dual, W)
        assert is_right(matmul(A, B), A, B)


def test_a_gradient_of_a_gradient() -> None:
    a, b = A.clone().requires_grad_(), B.clone().requires_grad_()
    (first,) = torch.autograd.grad(matmul(a, b).square().sum(), a, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), b)
    (expected,) = torch.autograd.grad((2 * (a @ b) @ b.t()).sum(), b)
    torch.testing.assert_close(second, expected, rtol=1e-4, atol=1e-4)


def test_parameters_under_no_grad_take_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = torch.nn.Parameter(W.clone())
    with torch.no_grad():
        assert not linear(A, weight).requires_grad
        monkeypatch.setattr(op, "linear", None)
        linear(A, weight)
    monkeypatch.undo()
    assert linear(A, weight).requires_grad


def test_the_operators_are_as_torch_wants_them() -> None:
    needs = [tensor.clone().requires_grad_() for tensor in (A, B, W)]
    torch.library.opcheck(op.matmul, (needs[0], needs[1]))
    torch.library.opcheck(op.linear, (needs[0].view(2, 8, 32).detach().requires_grad_(), needs[2]))
    torch.library.opcheck(op.matmul_into, (A, B, torch.empty(16, 64)))
    torch.library.opcheck(op.linear_into, (A, W, torch.empty(16, 64)))
