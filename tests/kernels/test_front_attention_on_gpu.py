"""attention on a GPU: right by winner and default, in a graph and under torch.compile, and at odd addresses."""

import pytest
import torch

from harness.judge.facts.problem import Problem, parse_shape_key
from kernels import attention, warm_up
from kernels.front.launches import choose, resolved
from kernels.front.pinned import publication
from kernels.front.places import place

pytestmark = pytest.mark.gpu

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}
BOUND = {"bfloat16": 6e-3, "float16": 1e-3}  # of the norm; weights and output are rounded
ROWS = 64
Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def operands(problem: Problem) -> Tensors:
    q, k, v = (torch.randn(shape, device="cuda", dtype=DTYPES[problem.input]) for shape in problem.inputs)
    return q, k, v


def assert_right(problem: Problem, found: torch.Tensor, operands: Tensors) -> None:
    """Some rows of the last head, in float64."""
    q, k, v = (each[-1, -1].double() for each in operands)
    rows = torch.randperm(len(q), device="cuda")[:ROWS]
    scores = q[rows] @ k.T / q.shape[-1] ** 0.5
    if problem.operator == "causalattention":
        scores.masked_fill_(torch.arange(len(k), device="cuda") > rows[:, None], float("-inf"))
    expected = scores.softmax(-1) @ v
    assert found.shape == problem.output_shape
    assert (found[-1, -1, rows] - expected).norm() < BOUND[problem.input] * expected.norm()
    assert not found.isnan().any()


@pytest.mark.parametrize("operator", ["attention", "causalattention"])
@pytest.mark.parametrize(
    ("dtype", "dims"),
    [
        ("bfloat16", (2, 16, 16, 4096, 128, 128)),
        ("float16", (2, 16, 4, 2048, 192, 128)),
        ("bfloat16", (3, 12, 6, 3001, 128, 128)),  # no multiple of any block
        ("float16", (2, 4, 4, 333, 80, 80)),  # the library's
    ],
)
def test_any_shape_is_right(operator: str, dtype: str, dims: tuple[int, ...]) -> None:
    problem = Problem(operator, dtype, "float32", dtype, dims)
    tensors, causal = operands(problem), operator == "causalattention"
    assert_right(problem, attention(*tensors, causal=causal), tensors)
    out = torch.full(problem.output_shape, float("nan"), device="cuda", dtype=tensors[0].dtype)
    assert_right(problem, attention(*tensors, causal=causal, out=out), tensors)


def test_winners_are_right() -> None:
    here = place(resolved("cuda"))
    problems = {parse_shape_key(key): winner for key, winner in publication(here.key).winners.items()}
    published = {problem: winner for problem, winner in problems.items() if "attention" in problem.operator}
    if not published:
        pytest.skip(f"no attention is published for {here.key}")
    warm_up(*(problem.shape_key for problem in published))
    for problem, winner in published.items():
        assert choose(problem, here).family == winner.family
        tensors = operands(problem)
        assert_right(problem, attention(*tensors, causal=problem.operator == "causalattention"), tensors)


def test_a_graph_replays_it() -> None:
    problem = parse_shape_key("causalattention_bf16fp32_2x16x16x4096x128x128")
    warm_up(problem.shape_key)
    tensors = operands(problem)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = attention(*tensors, causal=True)
    for _ in range(2):
        tensors[0].normal_()
        found.fill_(float("nan"))
        graph.replay()
        assert_right(problem, found, tensors)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # inductor's own
def test_torch_compile() -> None:
    problem = parse_shape_key("attention_bf16fp32_2x16x16x4096x128x128")
    tensors = operands(problem)
    compiled = torch.compile(lambda q, k, v: attention(q, k, v) * 2, fullgraph=True)
    assert_right(problem, compiled(*tensors) / 2, tensors)


@pytest.mark.parametrize("tokens", [2048, 333])  # a kernel's, and the library's
@pytest.mark.parametrize("odd", range(4))
def test_an_odd_address_is_right(tokens: int, odd: int) -> None:
    problem = parse_shape_key(f"attention_bf16fp32_2x16x16x{tokens}x128x128")
    tensors = [*operands(problem), torch.empty(problem.output_shape, device="cuda", dtype=torch.bfloat16)]
    memory = torch.randn(tensors[odd].numel() + 1, device="cuda", dtype=torch.bfloat16)
    tensors[odd] = memory[1:].view(tensors[odd].shape)
    q, k, v, out = tensors
    assert_right(problem, attention(q, k, v, out=out), (q, k, v))
