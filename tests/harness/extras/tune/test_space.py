"""Spaces: their forms, and what they span."""

import subprocess
import sys

import pytest

from harness.catalog import gpus
from harness.errors import UsageError
from harness.extras.tune import carver_hints
from harness.extras.tune.space import constant, expand, frozen, text, words
from harness.extras.tune.survey import load_family, look
from harness.judge.child.brief import Brief
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import parse_shape_key
from tests.harness.checkout import ROOT
from tests.lanes import few

CPU, H200 = gpus.find("cpu"), gpus.find("h200")
SMALL = parse_shape_key("matmul_f32fp32_64x64x64")
LARGE = parse_shape_key("matmul_bf16fp32_4096x4096x4096")


def test_a_list_a_product_and_a_callable_span_the_same() -> None:
    product = {"block_M": [4, 8], "block_N": [16]}
    listed = [{"block_M": 4, "block_N": 16}, {"block_M": 8, "block_N": 16}]
    assert expand(product, SMALL, CPU) == listed
    assert expand(listed, SMALL, CPU) == listed
    assert expand(lambda problem, gpu: {"block_M": [4, 8], "block_N": [problem.dims[1] // 4]}, SMALL, CPU) == listed


def test_a_configuration_counts_once() -> None:
    assert expand([{"a": 1, "b": [2]}, {"b": (2,), "a": 1}], SMALL, CPU) == [{"a": 1, "b": (2,)}]


@pytest.mark.parametrize("space", [3, {"block_M": 4}, {"block_M": "48"}, ["block_M"]])
def test_what_is_no_space_is_refused(space: object) -> None:
    with pytest.raises(UsageError):
        expand(space, SMALL, CPU)  # type: ignore[arg-type]


def test_a_configuration_survives_json() -> None:
    config = {"compile_flags": ("-O3",), "pass_configs": {"tl.disable_tma_lower": True}, "registers": (40, 232)}
    assert text(frozen({**config, "registers": [40, 232]})) == text(config)


def test_a_family_whose_function_is_missing_is_named() -> None:
    for missing in ("kernels.cpu.nothing", "kernels.nothing.nothing"):
        with pytest.raises(UsageError, match=f"family {missing} cannot be imported"):
            load_family(missing)


def test_what_varies_is_told_and_what_does_not_is_not() -> None:
    configs = [{"a": 1, "b": 2}, {"a": 1, "b": 3}]
    assert constant(configs) == {"a"}
    assert words(configs[0], constant(configs)) == "b=2"


@pytest.mark.parametrize(
    ("gpu", "problem", "family"),
    few(
        [
            (CPU, SMALL, "kernels.cpu.plain_loops"),
            (CPU, SMALL, "kernels.cpu.scalar_gemm"),
            (CPU, SMALL, "kernels.cpu.register_blocked"),
            (H200, parse_shape_key("matmul_bf16fp32_1024x1024x1024"), "kernels.gemm.warp_specialized"),
            (H200, parse_shape_key("matmul_bf16fp32_8192x8192x8192"), "kernels.gemm.stream_k"),
            (H200, parse_shape_key("matmul_fp16fp32_16384x16384x512"), "kernels.gemm.ping_pong"),
            (H200, parse_shape_key("matmul_fp16fp32_16384x16384x512"), "kernels.gemm.stationary"),
            (H200, parse_shape_key("scaledlinear_e4m3fp32bf16_8192x8192x8192"), "kernels.gemm.warp_specialized"),
            (H200, parse_shape_key("blockscaledlinear_e4m3fp32bf16_8192x8192x8192"), "kernels.gemm.block_scaled"),
            (H200, parse_shape_key("linear_bf16fp32_64x8192x8192"), "kernels.gemm.split_k"),
            (H200, parse_shape_key("groupedlinear_bf16fp32_8192x4096x7168x32"), "kernels.gemm.grouped"),
            (H200, parse_shape_key("int4linear_bf16fp32_16x8192x8192"), "kernels.gemm.int4_weights"),
            (H200, parse_shape_key("causalattention_bf16fp32_1x4x1x512x192x128"), "kernels.flash_attention.forward"),
            (H200, parse_shape_key("pageddecode_bf16fp32_2x8x1x64x2x128"), "kernels.paged_decode.paged_decode"),
            (H200, parse_shape_key("mladecode_bf16fp32_2x64x512x64x2x64"), "kernels.latent_decode.latent_decode"),
            (H200, parse_shape_key("varlenattention_fp16fp32_2x4x1x64x64x64"), "kernels.varlen_attention.varlen"),
            (H200, parse_shape_key("attentionbackward_fp16fp32_1x2x256x128"), "kernels.attention_backward.backward"),
        ],
        (CPU, SMALL, "kernels.cpu.register_blocked"),
        (H200, parse_shape_key("matmul_fp16fp32_16384x16384x512"), "kernels.gemm.stationary"),
        (H200, parse_shape_key("linear_bf16fp32_64x8192x8192"), "kernels.gemm.split_k"),
    ),
)
def test_every_space_of_the_checkout_has_candidates(gpu: Gpu, problem: object, family: str) -> None:
    found = look(Brief(ROOT, problem, gpu, None), (family,), carver=False)  # type: ignore[arg-type]
    assert 4 <= len(found.entries) <= 200
    assert all(entry.origin == "space" and not entry.wrapped for entry in found.entries)


def test_the_carver_suggests_without_a_gpu() -> None:
    hints = carver_hints.hints(LARGE, H200)
    assert len(hints) == carver_hints.SUGGESTIONS
    assert all(hint.use_tc for hint in hints)  # the analysis for tensor cores did not fall back
    assert any(tuple(hint.block) == (128, 256) for hint in hints)


def test_suggestions_become_levers_of_the_family() -> None:
    base = {"block_M": 128, "block_N": 128, "block_K": 64, "num_stages": 4, "persistent": True}
    suggested = carver_hints.suggest(LARGE, H200, base, frozenset({*base, "consumer_groups"}))
    assert all(set(each) == {*base, "consumer_groups"} and each["persistent"] for each in suggested)
    found = look(Brief(ROOT, LARGE, H200, None), ("kernels.gemm.warp_specialized",), carver=True)
    assert "suggestions of the carver" in found.carver
    assert found.entries[0].origin == "carver"
    assert found.refused > 0 and found.reasons  # tiles that do not fit in shared memory


def test_on_a_cpu_the_carver_says_why_not() -> None:
    found = look(Brief(ROOT, SMALL, CPU, None), ("kernels.cpu.register_blocked",), carver=True)
    assert found.carver.startswith("no suggestions: ") and "CPU" in found.carver


def test_compiler_levers_beside_the_family() -> None:
    """A family that takes no pass configs gets them through kernels.compiled."""
    from kernels.compiled import compiled
    from kernels.cpu import plain_loops

    made = compiled(
        plain_loops, SMALL, loop_order="mkn", compile_flags=("-O3",), pass_configs={"tl.disable_tma_lower": True}
    )
    assert (made.compile_flags, made.pass_configs) == (("-O3",), {"tl.disable_tma_lower": True})


def test_a_survey_of_many_kernels_warns_of_none() -> None:
    """In a process of its own, as TileLang's logger keeps its level and its stream."""
    script = f"""
from pathlib import Path
from harness.catalog import gpus
from harness.extras.tune.survey import look, quieten
from harness.judge.child.brief import Brief
from harness.judge.facts.problem import parse_shape_key
quieten()
brief = Brief(Path.cwd(), parse_shape_key("{LARGE}"), gpus.find("h200"), None)
print(len(look(brief, ("kernels.gemm.warp_specialized",), carver=False).entries))
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(done.stdout) > 50
    assert done.stderr == ""
