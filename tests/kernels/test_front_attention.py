"""attention as users call it: right, checked, traceable, differentiable; on a CPU it is the library's."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import forward_ad
from torch.nn.functional import scaled_dot_product_attention

from harness.judge.facts.problem import Problem
from kernels import attention, warm_up
from kernels.front import attending
from kernels.front.defaults import ATTENTION_TOKENS_LEAST, default
from kernels.front.library import library_of
from kernels.front.places import Place

HOPPER = Place(torch.device("cuda", 0), "h200", "sm_90a", 132)
NO_TENSOR: Any = [1.0]


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


Q, K, V = normal(2, 4, 32, 64), normal(2, 2, 32, 64), normal(2, 2, 32, 16)


def expected(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """By the formula, in float64."""
    shared = q.shape[1] // k.shape[1]
    k, v = k.double().repeat_interleave(shared, 1), v.double().repeat_interleave(shared, 1)
    scores = q.double() @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))
    made: torch.Tensor = scores.softmax(-1) @ v
    return made


@pytest.mark.parametrize("causal", [False, True])
def test_it_is_right(causal: bool) -> None:
    found = attention(Q, K, V, causal=causal)
    assert found.shape == (2, 4, 32, 16)
    assert torch.allclose(found.double(), expected(Q, K, V, causal), atol=1e-5)
    out = torch.full_like(found, float("nan"))
    assert attention(Q, K, V, causal=causal, out=out) is out
    assert torch.equal(out, found)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: attention(NO_TENSOR, K, V), TypeError, "q is a list; give it a torch.Tensor"),
        (lambda: attention(Q[0], K, V), ValueError, r"q is \[4,32,64\]; it takes \[batch, heads, tokens, width\]"),
        (lambda: attention(Q, K.half(), V), TypeError, "q is torch.float32 and k is torch.float16; cast one"),
        (lambda: attention(Q.double(), K.double(), V.double()), TypeError, "torch.float64 is not supported"),
        (lambda: attention(Q, K.to("meta"), V), ValueError, "q is on cpu and k on meta; move one"),
        (lambda: attention(Q, K[:, :, :16].contiguous(), V), ValueError, r"it takes \[B,H,S,D\], \[B,G,S,D\]"),
        (lambda: attention(Q[:, :3].contiguous(), K, V), ValueError, "3 heads of q cannot share 2 of k"),
        (lambda: attention(Q.transpose(1, 2).contiguous().transpose(1, 2), K, V), ValueError, "q is not contiguous"),
        (lambda: attention(Q, K, V, out=Q), ValueError, r"out is \[2,4,32,64\].*it must be \[2,4,32,16\]"),
        (lambda: attention(Q, K, V, out=NO_TENSOR), TypeError, "out is a list"),
        (lambda: attention(Q, K, K, out=Q), ValueError, "out lies in the memory of q"),
        (lambda: attention(Q.clone().requires_grad_(), K, V, out=normal(2, 4, 32, 16)), ValueError, "no gradient"),
    ],
)
def test_wrong_arguments_have_their_sentence(call: Callable[[], Any], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        call()
    attention(Q, K, V)  # what was found for the right ones does not let the wrong ones in
    with pytest.raises(error, match=sentence):
        call()


def test_the_meta_device_has_shapes() -> None:
    found = attention(Q.to("meta"), K.to("meta"), V.to("meta"))
    assert found.is_meta and found.shape == (2, 4, 32, 16)


@pytest.mark.parametrize("causal", [False, True])
def test_torch_compile_takes_it_whole(causal: bool) -> None:
    compiled = torch.compile(lambda q, k, v: attention(q, k, v, causal=causal) + 1, fullgraph=True, backend="aot_eager")
    assert torch.allclose(compiled(Q, K, V), attention(Q, K, V, causal=causal) + 1)


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_are_those_of_torch(compiled: bool) -> None:
    ours = tuple(each.clone().requires_grad_() for each in (Q, K, V))
    theirs = tuple(each.clone().requires_grad_() for each in (Q, K, V))
    call = torch.compile(attention, fullgraph=True, backend="aot_eager") if compiled else attention
    call(*ours, causal=True).square().sum().backward()
    q, k, v = theirs
    scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).square().sum().backward()
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.grad is not None and other.grad is not None
        assert torch.allclose(mine.grad, other.grad, atol=1e-5)


def test_the_operator_is_as_torch_wants_it() -> None:
    torch.library.opcheck(attending.operator, (Q, K, V, True))
    torch.library.opcheck(attending.operator_into, (Q, K, V, False, normal(2, 4, 32, 16)))


def test_no_family_takes_the_functions_name() -> None:
    """A subpackage becomes an attribute of its package when it is imported, in place of the function."""
    import kernels.flash_attention

    assert callable(kernels.attention)
    names = {path.stem for path in Path(kernels.__file__).parent.iterdir()}
    assert not names & set(kernels.__all__)


@pytest.mark.parametrize(
    ("operator", "dtype", "dims", "levers"),
    [
        ("attention", "bfloat16", (3, 16, 16, 4096, 128, 128), {"exact_weights": True, "heads_at_once": 1}),
        ("attention", "float16", (3, 16, 16, 2047, 128, 128), {"ahead": True, "epilogue_buffers": 2}),
        ("attention", "float16", (4, 8, 2, 2048, 192, 128), {"ahead": False, "exact_weights": True}),
        ("causalattention", "bfloat16", (2, 8, 8, 8192, 128, 128), {"keeps_maxima": True, "heads_at_once": 4}),
        ("causalattention", "float16", (1, 16, 4, 32768, 192, 128), {"powers_first": 40, "heads_at_once": 1}),
        ("causalattention", "bfloat16", (3, 12, 6, 3001, 128, 128), {"heads_at_once": 9}),  # ten do not divide 36
        ("attention", "bfloat16", (16, 16, 16, 1000, 128, 128), {"ahead": True}),
        ("attention", "bfloat16", (16, 16, 16, 255, 128, 128), None),  # shorter than what was measured
        ("attention", "float32", (3, 16, 16, 4096, 128, 128), None),
        ("attention", "bfloat16", (3, 16, 16, 4096, 64, 64), {"block_N": 128, "epilogue_buffers": 1}),
        ("causalattention", "float16", (3, 16, 16, 4096, 64, 64), {"keeps_maxima": True}),
        ("attention", "bfloat16", (3, 16, 16, 4096, 96, 96), None),
        ("causalattention", "bfloat16", (3, 16, 16, 4096, 256, 256), {"block_N": 80, "epilogue_buffers": 0}),
        ("causalattention", "bfloat16", (4, 40, 10, 421, 256, 256), None),  # 0.82 of the library where it was measured
        ("causalattention", "bfloat16", (1, 1, 1, 2048, 128, 128), None),  # sixteen tiles
        ("causalattention", "bfloat16", (512, 16, 16, 1024, 128, 128), None),  # a table too long for a kernel
    ],
)
def test_defaults_on_hopper(operator: str, dtype: str, dims: tuple[int, ...], levers: dict[str, Any] | None) -> None:
    problem = Problem(operator, dtype, "float32", dtype, dims)
    choice = default(problem, HOPPER)
    assert (choice.family is not None) == (levers is not None), choice
    if levers is not None:
        assert {name: choice.levers[name] for name in levers} == levers
        choice.program(problem)


@settings(max_examples=20, deadline=None)
@given(
    causal=st.booleans(),
    batch=st.integers(1, 5),
    heads=st.integers(1, 24),
    groups=st.integers(1, 24),
    tokens=st.integers(1, 9000),
    widths=st.sampled_from((*ATTENTION_TOKENS_LEAST, (96, 96))),
)
def test_every_default_can_be_made(
    *, causal: bool, batch: int, heads: int, groups: int, tokens: int, widths: tuple[int, int]
) -> None:
    operator = "causalattention" if causal else "attention"
    dims = (batch, heads, groups if heads % groups == 0 else heads, tokens, *widths)
    problem = Problem(operator, "bfloat16", "float32", "bfloat16", dims)
    choice = default(problem, HOPPER)
    if choice.family is not None:
        choice.program(problem)


def test_warm_up_knows_it() -> None:
    key = "causalattention_f32fp32_2x4x2x32x64x16"
    assert warm_up(key, device="cpu") == {key: "the library: no attention family takes float32 on c"}


def test_the_library_of_a_problem_writes_the_output() -> None:
    problem = Problem("causalattention", "float32", "float32", "float32", (2, 4, 2, 32, 64, 16))
    out = torch.empty(2, 4, 32, 16)
    library_of(problem)(Q, K, V, out)
    assert torch.allclose(out.double(), expected(Q, K, V, True), atol=1e-5)


def test_the_meta_device_and_autograd_see_an_output_that_was_given() -> None:
    on_meta = [each.to("meta") for each in (Q, K, V)]
    out = torch.empty(2, 4, 32, 16, device="meta")
    assert attention(*on_meta, out=out) is out
    x, out = torch.randn(2, 4, 32, 16).requires_grad_(), torch.randn(2, 4, 32, 16)
    y = (x * out).sum()
    attention(Q, K, V, out=out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # by what torch imports for it
def test_forward_mode_is_refused_and_not_lost() -> None:
    with forward_ad.dual_level(), pytest.raises(ValueError, match="has no forward-mode gradient"):
        attention(forward_ad.make_dual(Q, torch.ones_like(Q)), K, V)
