"""matmul and linear on a GPU: right by every way of choosing, in streams and graphs, and below torch's host time."""

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest
import torch

from harness.judge.facts.problem import Problem, parse_shape_key
from kernels import linear, matmul, warm_up
from kernels.front.arguments import SECOND
from kernels.front.launches import choose, resolved
from kernels.front.library import library_kernels, library_tile
from kernels.front.pinned import publication
from kernels.front.places import place
from kernels.front.racing import SECONDS, TUNE

pytestmark = pytest.mark.gpu

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
BOUND = {"bfloat16": 4e-3, "float16": 1e-3, "float32": 2e-3}  # TF32, where the library is allowed it


def operands(problem: Problem) -> tuple[torch.Tensor, torch.Tensor]:
    first, second = problem.inputs
    a = torch.randn(first, device="cuda", dtype=DTYPES[problem.input])
    return a, torch.randn(second, device="cuda", dtype=DTYPES[problem.input])


def call_of(problem: Problem) -> Callable[..., torch.Tensor]:
    return matmul if problem.operator == "matmul" else linear


def assert_right(problem: Problem, found: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """Some rows, in float64."""
    rows = torch.randperm(len(a), device="cuda")[:64]
    expected = a[rows].double() @ (b.t() if problem.operator == "linear" else b).double()
    assert found.shape == problem.output_shape
    assert (found[rows] - expected).norm() < BOUND[problem.input] * expected.norm()
    assert not found.isnan().any()


SHAPES = [
    ("matmul", "bfloat16", (4096, 8192, 4096)),
    ("matmul", "float16", (8192, 8192, 512)),
    ("linear", "bfloat16", (1024, 1024, 4096)),
    ("linear", "float16", (32, 8192, 4096)),
    ("matmul", "bfloat16", (4104, 4104, 1000)),
    ("linear", "bfloat16", (1, 4096, 4096)),
    ("matmul", "bfloat16", (130, 129, 67)),
    ("matmul", "float32", (512, 512, 512)),
]


def test_the_library_says_which_tile_it_takes() -> None:
    problem, device = parse_shape_key("linear_bf16fp32_4096x8192x4096"), resolved("cuda")
    assert all(library_kernels(problem, device))
    tile = library_tile(problem, device)
    assert tile is not None and min(tile) >= 8


@pytest.mark.parametrize(("operator", "dtype", "dims"), SHAPES)
def test_defaults_are_right(operator: str, dtype: str, dims: tuple[int, int, int]) -> None:
    problem = Problem(operator, dtype, "float32", dtype, dims)
    a, b = operands(problem)
    assert_right(problem, call_of(problem)(a, b), a, b)
    out = torch.full(problem.output_shape, float("nan"), device="cuda", dtype=a.dtype)
    assert_right(problem, call_of(problem)(a, b, out=out), a, b)


def test_winners_are_right() -> None:
    here = place(resolved("cuda"))
    winners = publication(here.key).winners
    if not winners:
        pytest.skip(f"nothing is published for {here.key}")
    problems = {parse_shape_key(key): winner for key, winner in winners.items()}
    products = {problem: winner for problem, winner in problems.items() if problem.operator in SECOND}
    warm_up(*(problem.shape_key for problem in products))
    for problem, winner in products.items():
        assert choose(problem, here).family == winner.family
        a, b = operands(problem)
        for _ in range(3):
            assert_right(problem, call_of(problem)(a, b), a, b)


def test_leading_dimensions_and_odd_addresses() -> None:
    w = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    memory = torch.randn(4 * 1024 * 4096 + 1, device="cuda", dtype=torch.bfloat16)
    for a in (memory[:-1].view(4, 1024, 4096), memory[1:].view(4, 1024, 4096)):
        problem = Problem("linear", "bfloat16", "float32", "bfloat16", (4096, 4096, 4096))
        assert_right(problem, linear(a, w).view(4096, 4096), a.view(4096, 4096), w)


def test_streams_at_once() -> None:
    """With a winner that has a workspace, as stream-K has on an H200."""
    problem = Problem("matmul", "bfloat16", "float32", "bfloat16", (8192, 8192, 8192))
    a, b = operands(problem)
    expected = matmul(a, b)
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    found = []
    for stream in streams * 4:
        with torch.cuda.stream(stream):
            found.append(matmul(a, b))
    torch.cuda.synchronize()
    assert all(torch.equal(each, expected) for each in found)


@pytest.mark.parametrize("dims", [(1024, 1024, 1024), (8192, 8192, 8192), (130, 129, 67)])
def test_a_graph_replays_it(dims: tuple[int, int, int]) -> None:
    problem = Problem("matmul", "bfloat16", "float32", "bfloat16", dims)
    warm_up(problem.shape_key)
    a, b = operands(problem)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = matmul(a, b)
    for _ in range(2):
        a.normal_()
        found.fill_(float("nan"))
        graph.replay()
        assert_right(problem, found, a, b)


@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")
def test_a_first_call_in_a_graph_is_refused() -> None:
    a = torch.randn(2048, 2176, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(2176, 4096, device="cuda", dtype=torch.bfloat16)
    with pytest.raises(RuntimeError, match="kernels.warm_up"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        matmul(a, b)
    torch.cuda.synchronize()


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # inductor's own
def test_torch_compile(mode: str) -> None:
    torch.compiler.reset()
    problem = Problem("matmul", "bfloat16", "float32", "bfloat16", (1024, 1024, 1024))
    a, b = operands(problem)
    compiled = torch.compile(lambda a, b: matmul(a, b) * 2, fullgraph=True, mode=mode)
    for _ in range(4):
        assert_right(problem, compiled(a, b) / 2, a, b)


def test_gradients() -> None:
    a, w = (torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(2))
    weights = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16)
    found = torch.autograd.grad((linear(a, w) * weights).sum(), (a, w))
    expected = torch.autograd.grad((torch.nn.functional.linear(a, w) * weights).sum(), (a, w))
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours - theirs).float().norm() < 8e-3 * theirs.float().norm()


def test_a_call_costs_the_host_no_more_than_torchs() -> None:
    problem = Problem("matmul", "bfloat16", "float32", "bfloat16", (1024, 1024, 1024))
    a, b = operands(problem)
    out = torch.empty_like(a)

    def us(call: Callable[..., object]) -> float:
        taken = []
        for _ in range(50):
            torch.cuda.synchronize()
            started = time.perf_counter()
            for _ in range(40):
                call(a, b, out=out)
            taken.append((time.perf_counter() - started) / 40 * 1e6)
        return median(taken)

    us(matmul), us(torch.matmul)
    assert us(matmul) <= us(torch.matmul)


@pytest.mark.parametrize("key", ["linear_bf16fp32_300x1024x2048", "matmul_fp16fp32_2048x1536x4096"])
def test_a_race_takes_what_is_right(key: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(TUNE, "1")
    monkeypatch.setenv(SECONDS, "30")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    problem = parse_shape_key(key)
    assert "raced here" in warm_up(key)[key]
    a, b = operands(problem)
    assert_right(problem, call_of(problem)(a, b), a, b)
