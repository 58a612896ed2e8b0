"""The advice: turned on the kernel at hand, with figures, and only what fits."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from harness.authoring.ideas import parse_config
from harness.boards import leaderboard
from harness.boards.board import BoardRow
from harness.boards.power import PowerBound
from harness.catalog.tree import Selection, Tree
from harness.extras.profile.advice import TABLE, advise
from harness.extras.profile.bottleneck import at_the_limit, find_bottleneck
from harness.extras.profile.case import Case
from harness.judge.facts.problem import parse_shape_key
from harness.records.profiles import Bound, Confidence, Idea
from tests.harness.checkout import ROOT
from tests.harness.extras.profile.reports import (
    PERSISTENT,
    PERSISTENT_CONFIG,
    STOCK,
    STOCK_CONFIG,
    h200,
    problem,
    read_figures,
)


def case(path: Path, config: str = "", bound: Bound | None = None, **figures: float | None) -> Case:
    found = read_figures(path, **figures)
    verdict = find_bottleneck(found, problem(), h200())
    if bound is not None:
        verdict = msgspec.structs.replace(verdict, bound=bound)
    return Case(found, verdict, problem(), h200(), parse_config(config))


def idea(tag: str, among: tuple[Idea, ...]) -> Idea:
    found = {each.tag: each for each in among}
    assert tag in found, found
    return found[tag]


def test_the_stock_kernel_is_sent_where_the_next_iterations_went() -> None:
    """iter005 and iter006 of the ladder are warp-specialised and persistent, iter003 stores by TMA."""
    ideas = advise(case(STOCK, STOCK_CONFIG))
    assert {"persistent", "warp_specialized", "tma_store"} <= {each.tag for each in ideas}
    store = idea("tma_store", ideas)
    assert store.because.startswith("50% of the sectors"), "1,048,576 of 2,097,152"
    assert store.config == {"epilogue": "tma"}


def test_a_saturated_tensor_pipe_is_not_told_to_load_further_ahead() -> None:
    tags = {each.tag for each in advise(case(PERSISTENT, PERSISTENT_CONFIG))}
    assert "drain_each_step" in tags, "what the leader of 4096³ did next"
    assert not tags & {"more_stages", "finer_stages", "tensor_cores", "persistent"}


def test_a_kernel_at_the_power_limit_is_told_what_saves_energy() -> None:
    figures = {"sustained_ratio": 1.03, "sustained_tflops": 692.0, "sustained_power_w": 699.6, "pj_per_flop": 1.04}
    figures |= {"sustained_sm_mhz": 1458.0, "sm_clock_mhz": 1935.0, "of_ceiling": 0.81, "ceiling_pj_per_flop": 0.8}
    row = msgspec.structs.replace(board_row(), sustained_at_limit=True, **figures)
    power = PowerBound.of(row)
    assert power is not None
    assert power.sentence == "power-bound: 81% of the power ceiling; 1.04 pJ per flop, the ceiling spends 0.80"
    assert power.clock == "700 W hold the SM clock at 1458 MHz instead of 1935: 692 TFLOPS"
    assert PowerBound.of(msgspec.structs.replace(row, sustained_at_limit=False)) is None
    counted = case(PERSISTENT, PERSISTENT_CONFIG)
    verdict = at_the_limit(counted.verdict, power)
    assert (verdict.bound, verdict.confidence, verdict.limiter) == (Bound.POWER, Confidence.HIGH, None)
    assert verdict.evidence[:3] == (power.sentence, power.clock, "with clocks to spare: compute-bound by tensor pipe")
    ideas = advise(replace(counted, verdict=verdict), {"cluster_multicast": "kernels.gemm.warp_specialized"})
    assert "halves the reads of that operand" in idea("cluster_multicast", ideas).because
    assert idea("cluster_multicast", ideas).what.endswith("as in kernels.gemm.warp_specialized")
    assert not {"more_stages", "drain_each_step"} & {each.tag for each in ideas}, "these save no energy"


def board_row() -> BoardRow:
    (board, *_), _ = leaderboard.boards(Tree(ROOT), "h200", Selection(shape="copy_f32fp32_16384x1024"))
    return board.rows[0]


def test_a_short_main_loop_is_told_to_take_turns() -> None:
    """The leader of 16384x16384x512 has 8 steps of K a tile; at 4096³ there are 64."""
    config = PERSISTENT_CONFIG.replace("cluster_M=1", "cluster_M=2").replace("wgmma_in_flight=1", "wgmma_in_flight=0")
    shape = "matmul_fp16fp32_16384x16384x512"
    found = read_figures(ROOT / f"tuning/h200/tilelang/perf/{shape}/tilebench/ncu_iter009.csv")
    short = parse_shape_key(shape)
    ideas = advise(Case(found, find_bottleneck(found, short, h200()), short, h200(), parse_config(config)))
    because = idea("ping_pong", ideas).because
    assert re.fullmatch(r"a tile has only 8 steps of K .* the tensor pipe is busy 8\d% of the time", because)
    assert "ping_pong" not in {each.tag for each in advise(case(PERSISTENT, PERSISTENT_CONFIG))}


def test_stages_are_added_only_while_they_fit() -> None:
    """A stage of 128x256x64 is 49,152 bytes: with 100,000 used two fit, with 197,632 none."""
    roomy = advise(case(STOCK, STOCK_CONFIG, Bound.LATENCY, shared_dynamic_bytes=99.0))
    more = idea("more_stages", roomy)
    assert more.config == {"num_stages": 6}
    assert "198,328 of 232,448 bytes" in more.fits
    finer = idea("finer_stages", advise(case(STOCK, STOCK_CONFIG, Bound.LATENCY)))
    assert finer.config == {"block_K": 32, "num_stages": 9}
    assert 1024 + 9 * 49152 // 2 <= 232448


def test_a_larger_tile_must_fit_registers_and_shared_memory() -> None:
    small = "block_M=128, block_N=128, block_K=32, num_stages=3, threads=128, policy='square', panel=0"
    found = idea("larger_tile", advise(case(STOCK, small, Bound.MEMORY, shared_dynamic_bytes=49.152)))
    assert found.config == {"block_N": 256, "threads": 256}, (
        "256 accumulators a thread would not fit: twice the threads"
    )
    assert "25% fewer bytes per flop" in found.because
    assert "128 of 255 registers as accumulators" in found.fits
    wide = advise(case(STOCK, STOCK_CONFIG, Bound.MEMORY))
    assert "larger_tile" not in {each.tag for each in wide}, "256x256 over 256 threads are 256 accumulators each"


def test_tensor_cores_where_none_are_used() -> None:
    found = advise(case(STOCK, STOCK_CONFIG, tensor_pct=0, sm_pct=85, fma_pct=85, wgmma_pct=0))
    assert found[0].tag == "tensor_cores"
    assert "FMA pipe is saturated at 85%" in found[0].because


def test_l2_locality_needs_more_traffic_than_the_problem_has() -> None:
    """100.7 MB must move; 212.6 MB did."""
    found = idea("l2_locality", advise(case(STOCK, STOCK_CONFIG, Bound.MEMORY)))
    assert (found.config, found.because) == (
        {"panel": 8},
        "212.6 MB moved where 100.7 MB must, and L2 hits are at 72%",
    )
    lean = advise(case(STOCK, STOCK_CONFIG, Bound.MEMORY, dram_read_bytes=90, dram_write_bytes=30))
    assert "l2_locality" not in {each.tag for each in lean}


def test_a_kernel_that_writes_as_much_as_it_reads_lets_its_outputs_leave_first() -> None:
    ideas = advise(case(STOCK, STOCK_CONFIG, Bound.MEMORY, dram_read_bytes=60, dram_write_bytes=40))
    assert idea("inputs_stay", ideas).because.startswith("40% of 100 MB from and to DRAM are writes")
    reads = advise(case(STOCK, STOCK_CONFIG, Bound.MEMORY, dram_read_bytes=80, dram_write_bytes=20))
    assert "inputs_stay" not in {each.tag for each in reads}


def test_bank_conflicts_and_spills_are_told_whatever_the_bound() -> None:
    ideas = advise(case(STOCK, STOCK_CONFIG, Bound.LAUNCH, bank_conflicts=5_000_000, local_stores=1000))
    assert ideas[0].tag == "no_spills"
    assert "20% of the passes" in idea("swizzled_layout", ideas).because


def test_a_grid_that_leaves_sms_idle_gets_smaller_tiles_or_split_k() -> None:
    found, thousand = read_figures(STOCK), parse_shape_key("matmul_bf16fp32_1024x1024x1024")
    verdict = msgspec.structs.replace(find_bottleneck(found, thousand, h200()), bound=Bound.LAUNCH)
    small = Case(found, verdict, thousand, h200(), parse_config(STOCK_CONFIG))
    ideas = advise(small)
    assert "32 tiles of 128x256 are fewer than 132 SMs" in idea("split_k", ideas).because
    assert idea("smaller_tile", ideas).config == {"block_M": 64, "block_N": 128}, "128 tiles, 97% of one wave"


def test_a_short_kernel_sets_up_while_the_one_before_ends() -> None:
    def advice(config: str) -> tuple[Idea, ...]:
        return advise(case(PERSISTENT, config, Bound.LAUNCH, active_cycles=70.0, elapsed_cycles=100.0))

    assert "in 70% of" in idea("dependent_launch", advice(PERSISTENT_CONFIG)).because
    assert "dependent_launch" not in {each.tag for each in advice(f"{PERSISTENT_CONFIG}, dependent_launch=True")}


def test_without_a_bound_there_is_no_advice() -> None:
    assert advise(case(STOCK, STOCK_CONFIG, dram_pct=None, l2_pct=None, shared_pct=None)) == ()


@pytest.mark.parametrize("bound", list(Bound))
@pytest.mark.parametrize("config", ["", STOCK_CONFIG, PERSISTENT_CONFIG])
def test_every_idea_is_a_sentence_with_figures_that_a_docstring_can_hold(bound: Bound, config: str) -> None:
    ideas = [each for suggest in TABLE[bound] for each in suggest(case(STOCK, config, bound, active_cycles=9000))]
    for each in ideas:
        docstring = ast.get_docstring(ast.parse(f'"""{each.sentence}"""'))
        assert docstring is not None and docstring.endswith(".")
        assert not re.search(r"[.!?]\s+[A-Z]", docstring), "one sentence, as the contract has it"
        assert re.fullmatch(r"[a-z][a-z0-9_]{1,30}", each.tag)
        assert re.search(r"\d", each.because), f"no figure suggests {each.tag}: {each.because}"
        assert set(each.config) <= set(parse_config(config)), "only levers that CONFIG has"


def test_each_bound_has_the_ideas_of_the_contract() -> None:
    names = {bound: [suggest.__name__ for suggest in TABLE[bound]] for bound in Bound}
    assert {"larger_tile", "more_stages", "locality"} <= set(names[Bound.MEMORY])
    assert {"tensor_cores", "larger_tile", "more_threads"} <= set(names[Bound.COMPUTE])
    assert {"more_stages", "prefetch"} <= set(names[Bound.LATENCY])


def test_config_of_a_record() -> None:
    assert parse_config("block_M=128, policy='square', registers=(40, 232), panel=-1") == {
        "block_M": 128,
        "policy": "square",
        "registers": (40, 232),
        "panel": -1,
    }
    assert parse_config(None) == {} == parse_config("not python (")
