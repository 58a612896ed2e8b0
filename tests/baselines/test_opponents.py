"""The stock kernels lower for Hopper without a GPU, and use what it has; the others build only with their packages."""

import pytest
import tilelang
from tilelang import tvm

from harness.catalog.opponents import Opponents
from harness.judge.facts.problem import parse_shape_key
from harness.judge.facts.program import Program
from tests.harness.checkout import ROOT

OPPONENTS = {each.name: each for each in Opponents.of(ROOT).members}


@pytest.mark.parametrize(
    ("name", "shape_key"),
    [
        ("tilelang_stock", "matmul_bf16fp32_2048x2048x2048"),
        ("tilelang_stock", "linear_fp16fp32_64x8192x8192"),
        ("tilelang_stock_attention", "attention_bf16fp32_4x16x4x4096x192x128"),
        ("tilelang_stock_attention", "causalattention_bf16fp32_2x32x8x8192x128x128"),
    ],
)
def test_a_stock_kernel_lowers_for_hopper(name: str, shape_key: str) -> None:
    program = OPPONENTS[name].build(parse_shape_key(shape_key))
    assert isinstance(program, Program)
    target = tvm.target.Target({"kind": "cuda", "arch": "sm_90a"})
    with target:
        source = tilelang.lower(program.prim_func, target=target).kernel_source
    assert "wgmma" in source
    assert "tma_load" in source


@pytest.mark.parametrize(
    ("name", "served", "refused"),
    [
        ("flash_attention_3", "attention_bf16fp32_4x16x4x4096x192x128", "attention_bf16fp32_1x1x1x128x96x96"),
        ("flash_attention_4", "causalattention_fp16fp32_1x1x1x128x64x64", "attention_bf16fp32_1x1x1x128x512x512"),
        ("flash_mla", "mladecode_bf16fp32_2x64x512x64x4x64", "mladecode_bf16fp32_2x64x256x64x4x64"),
        ("tilelang_stock_attention", "attention_bf16fp32_1x1x1x128x64x64", "attention_bf16fp32_1x1x1x100x64x64"),
    ],
)
def test_an_opponent_refuses_what_it_has_no_kernel_for(name: str, served: str, refused: str) -> None:
    assert OPPONENTS[name].refuses(parse_shape_key(served)) is None
    assert OPPONENTS[name].refuses(parse_shape_key(refused))
