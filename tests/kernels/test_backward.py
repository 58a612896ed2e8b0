"""The gradients of attention, judged by what the generated text of its three kernels computes on the CPU."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from harness.judge.facts.problem import parse_shape_key
from kernels.attention_backward import backward
from tests.harness.operators.launches import wrong
from tests.kernels.emulation import generated
from tests.kernels.emulation.numbers import emulated, faults
from tests.lanes import few

SMALL = "attentionbackward_bf16fp32_1x1x256x128"
HALF = "attentionbackward_fp16fp32_2x2x256x128"
PLAIN = {"overlap": False, "bulk_add": False, "num_stages": 1}
BULK: dict[str, Any] = {"early_free": True}
ALTERNATE: dict[str, Any] = {"bulk_add": False, "alternate": True, "early_free": True, "dependent_launch": True}
HEADS = "attentionbackward_bf16fp32_2x2x256x128"
WITHIN: dict[str, Any] = {"bulk_add": False, "early_free": True, "finish_within": True, "num_sms": 1}  # 2 heads behind

SKIP: dict[str, Any] = {**ALTERNATE, "skip_hidden": True}
FEW_FENCES: dict[str, Any] = {**ALTERNATE, "few_fences": True}
STATISTICS: dict[str, Any] = {**FEW_FENCES, "statistics_within": True, "num_sms": 1}  # of the next head


def launch(
    folder: Path, broken: tuple[str, str] | None = None, shape_key: str = SMALL, **levers: Any
) -> Callable[..., None]:
    problem = parse_shape_key(shape_key)
    batches, heads, tokens, _ = problem.dims
    all_tokens = batches * heads * tokens
    boxes = dict.fromkeys(("Q", "K", "V", "dO", "dK", "dV"), ((3, 2, 1, 0), (64, 64, 1, 1)))
    query_blocks, key_blocks = (all_tokens // 64,), (all_tokens // 128,)
    program = backward(problem, **levers)
    grids = query_blocks, key_blocks, query_blocks
    return emulated(program, grids, boxes | {"statistics": ((1, 0), (128, 1))}, folder, broken)


@pytest.mark.parametrize("levers", few([PLAIN, {"bulk_add": False}, {}, BULK, ALTERNATE, FEW_FENCES, SKIP], BULK, SKIP))
def test_the_gradients_are_those_of_the_operator(levers: dict[str, Any], tmp_path: Path) -> None:
    assert wrong(SMALL, launch(tmp_path, **levers)) == set()


BROKEN = {
    "nothing waits for the queries": (r"Q_full\[[^;]*\.wait\([^;]*\);", ";"),
    "nothing waits for the gradients of the output": (r"dO_full\[[^;]*\.wait\([^;]*\);", ";"),
    "the other group's dS is not waited for": (
        r"tl::fence_proxy_async\(\);\s*tl::__sync_thread_partial\(8, 256\);",
        ";",
    ),
    "dS is overwritten too early": (r"tl::__sync_thread_partial\(1[23], 256\);", ";"),
    "sums are overwritten before they are added": (r"tl::tma_store_wait<0, true>\(\);\s*tl::__sync", "tl::__sync"),
    "a step of keys too few": (r"step(_\d+) < \(", r"1 + step\1 < ("),
}
BROKEN_ALTERNATE = {
    "the other group's dS is not waited for": BROKEN["the other group's dS is not waited for"],
    "sums are overwritten before they are added": BROKEN["sums are overwritten before they are added"],
    "the first group's sums are read too early": (r"tl::wait_wgmma<2>\(\);", ";"),
}
BROKEN_SKIP = {
    "what is hidden is not zero": (r"bfloat16_t\(0x0p\+0f", "bfloat16_t(0x1p+0f"),
    "the first step that a group sees is not masked": (r"if \(step\w* == 1\)", "if (0)"),
    "the second group leaves out two steps": (r"int (step\w*) = 1;", r"int \1 = 2;"),
}
BROKEN_WITHIN = {
    "sums are read before they are copied": (r"tl::cp_async_wait<0>\(\);", ";"),
    "finished queries are not marked": (r"counters\[[^;]*\] = 1;", ";"),
    "the mark is not read": (r"if \(counters\[[^;{]*\] == 0\)", "if (1)"),
    "a half is left out": (r"half < 2", "half < 1"),
}
BROKEN_STATISTICS = {
    "a lane is left out": (r"total\[0\] = tl::warp_reduce_sum\(total\[0\]\);", ";"),
    "queries of a warp are left out": (r"< 86;", "< 85;"),
    "logarithms are left out": (r"< 3;", "< 2;"),
    "a warp is not counted": (r"count_one\(\(&", "(void)((&"),
    "the warps of the launch before are counted": (r"counters\[[^;]*\] = 0;", ";"),
}


@pytest.mark.parametrize("broken", few(BROKEN, "dS is overwritten too early"))
def test_a_mistake_in_the_text_shows_in_the_numbers(broken: str, tmp_path: Path) -> None:
    assert faults(SMALL, launch(tmp_path, BROKEN[broken], **BULK))


@pytest.mark.slow
@pytest.mark.parametrize("broken", BROKEN_ALTERNATE)
def test_a_mistake_of_groups_that_alternate_shows(broken: str, tmp_path: Path) -> None:
    assert faults(SMALL, launch(tmp_path, BROKEN_ALTERNATE[broken], **ALTERNATE))


@pytest.mark.slow
@pytest.mark.parametrize("broken", BROKEN_SKIP)
def test_a_mistake_of_the_group_that_leaves_out_what_is_hidden_shows(broken: str, tmp_path: Path) -> None:
    assert faults(SMALL, launch(tmp_path, BROKEN_SKIP[broken], **SKIP))


@pytest.mark.slow
@pytest.mark.parametrize("broken", BROKEN_WITHIN)
def test_a_mistake_of_the_finishing_warps_shows(broken: str, tmp_path: Path) -> None:
    assert faults(HEADS, launch(tmp_path, BROKEN_WITHIN[broken], HEADS, **WITHIN))


def test_what_is_finished_within_is_right_and_leaves_zeros_for_the_next_launch(tmp_path: Path) -> None:
    launched = launch(tmp_path, shape_key=HEADS, **WITHIN)
    assert wrong(HEADS, launched) == set()
    assert wrong(HEADS, launched) == set()


def test_statistics_of_later_heads_are_right_in_each_launch(tmp_path: Path) -> None:
    launched = launch(tmp_path, shape_key=HEADS, **STATISTICS)
    assert wrong(HEADS, launched) == set()
    assert wrong(HEADS, launched) == set()


@pytest.mark.slow
@pytest.mark.parametrize("broken", BROKEN_STATISTICS)
def test_a_mistake_of_the_warps_that_compute_statistics_shows(broken: str, tmp_path: Path) -> None:
    assert faults(HEADS, launch(tmp_path, BROKEN_STATISTICS[broken], HEADS, **STATISTICS))


@cache
def cuda(key: str, **levers: Any) -> str:
    """The main kernel's definition."""
    source = generated(backward(parse_shape_key(key), **levers))
    return source[source.rindex("main_kernel_1(") :].split('extern "C" __global__')[0]


@pytest.mark.parametrize("key", few([SMALL, HALF], HALF))
def test_a_step_has_five_products_and_three_loads(key: str) -> None:
    source = cuda(key)
    assert set(re.findall(r"tma_load\((\w+)_desc", source)) == {"K", "Q", "V", "dO", "statistics"}
    assert set(re.findall(r"tma_store\((\w+)_desc", source)) == {"dK", "dV"}
    # Of each group: scores, dP, and dS of each group times K; dV and dK with the left side in registers.
    assert len(re.findall(r"tl::wgmma_ss<", source)) == 2 * 4
    assert len(re.findall(r"tl::wgmma_rs<", source)) == 2 * 2
    assert "ptx_stmatrix" in source


def test_sums_of_dq_leave_by_bulk_additions_or_atomics() -> None:
    bulk, atomic = cuda(SMALL), cuda(SMALL, bulk_add=False)
    assert bulk.count("tl::tma_store_add(") == 2
    assert "add_sums<" not in bulk
    assert atomic.count("add_sums<8>(") == 2
    assert "tl::tma_store_add(" not in atomic
    turns = cuda(SMALL, **ALTERNATE)
    assert turns.count("tl::tma_store_add(") == turns.count("add_sums<8>(") == 1
    within = cuda(SMALL, **WITHIN)
    assert within.count("reduce_sums<8>(") == 2
    assert within.count("counted_blocks(") == within.count("finish_sums<8, 128>(") == within.count("count_one(") == 1


def test_with_few_fences_each_step_has_one_for_what_it_stores() -> None:
    fences = [cuda(SMALL, **ALTERNATE, few_fences=few).count("tl::fence_proxy_async();") for few in (True, False)]
    at_the_end = 2 * 2  # a group stores dV and dK
    assert fences == [at_the_end + 2 + 1, at_the_end + 3 + 2]  # dS; in one group also the sums of dQ


def test_only_steps_at_the_diagonal_are_masked() -> None:
    assert len(re.findall(r"if \(\w+ < 2\) \{", cuda(SMALL))) == 2
    skipping = cuda(SMALL, **SKIP)  # each group masks the one step that crosses its diagonal
    assert re.findall(r"if \(step\w* == (\d)\) \{", skipping) == ["0", "0", "1"]  # first of all the producer's
    assert len(re.findall(r"tl::wgmma_", skipping)) == 2 * 6 + 1  # and half of dQ from the first group's keys


@pytest.mark.parametrize(
    ("key", "levers", "named"),
    [
        ("attention_bf16fp32_1x1x1x256x128x128", {}, "attentionbackward"),
        ("attentionbackward_f32fp32_1x1x256x128", {}, "float32"),
        ("attentionbackward_bf16fp32_1x1x256x64", {}, "heads of 64"),
        ("attentionbackward_bf16fp32_1x1x192x128", {}, "192 tokens"),
        (SMALL, {"num_stages": 0}, "num_stages=0"),
        (SMALL, {"num_stages": 4}, "shared memory"),
        (SMALL, {"heads_at_once": 2}, "heads_at_once=2"),
        (SMALL, {"finish_within": True}, "finish_within"),
        (SMALL, {"alternate": True}, "alternate"),
        (SMALL, {"bulk_add": False, "alternate": True, "overlap": False}, "overlap"),
        (SMALL, {"bulk_add": False, "alternate": True, "finish_within": True}, "finish_within"),
        (SMALL, {"bulk_add": False, "finish_within": True, "statistics_within": True}, "statistics_within"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(key: str, levers: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named) as refused:
        backward(parse_shape_key(key), **levers)
    assert "\n" not in str(refused.value)
