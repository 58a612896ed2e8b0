"""The attention family lowers for sm_90a, without a GPU, to the instructions it promises; each tile is done once."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.catalog import gpus
from harness.iteration import Program
from harness.judge.facts.problem import parse_shape_key
from kernels.flash_attention import forward
from kernels.flash_attention.block import Block
from kernels.flash_attention.family import space
from kernels.flash_attention.tiles import BETWEEN_TILES, Tiles
from kernels.front.candidates import ATTENTION
from kernels.front.defaults import default
from kernels.front.places import Place
from tests.harness.operators.launches import wrong
from tests.kernels.emulation import SYNC, TRIGGER, generated
from tests.kernels.emulation.numbers import emulated, faults
from tests.lanes import few

FULL = "attention_bf16fp32_2x4x2x512x128x128"
CAUSAL = "causalattention_fp16fp32_2x4x2x512x192x128"
RAGGED = "attention_bf16fp32_1x2x1x500x128x64"


def build(key: str, **levers: object) -> Program:
    return forward(parse_shape_key(key), **{"block_N": 128, "num_sms": 6, **levers})  # type: ignore[arg-type]


@cache
def cuda(key: str, **levers: object) -> str:
    source = generated(build(key, **levers))
    # The definition of the kernel, not the inline functions before it.
    return source[source.index('extern "C" __global__') :]


def in_order(source: str, *patterns: str) -> bool:
    """Whether the patterns occur one after the other."""
    return re.search(".*?".join(patterns), source, re.DOTALL) is not None


def loops(source: str) -> list[str]:
    """The loops over a tile's blocks of keys, from where a group awaits its turn to where P is converted."""
    found = re.findall(r"for \(int step\w* = 1;.*?(?:nv_bfloat162|half2)", source, re.DOTALL)
    assert found
    return found


@pytest.mark.parametrize("key", [FULL, CAUSAL, RAGGED])
def test_roles_loads_and_products(key: str) -> None:
    source = cuda(key)
    assert set(re.findall(r"tma_load\((\w)_desc", source)) == {"Q", "K", "V"}
    assert "warpgroup_reg_dealloc<40>" in source
    assert source.count("warpgroup_reg_alloc<232>") == 2
    assert "tl::wgmma_ss" in source  # Q and K from shared memory
    assert "tl::wgmma_rs" in source  # P from registers
    assert "__launch_bounds__(384, 1)" in source
    assert "AllReduce<tl::SumOp" not in source


def test_both_products_are_in_flight_before_the_softmax() -> None:
    for loop in loops(cuda(FULL)):
        assert in_order(loop, "wgmma_ss", "wgmma_rs", "wait_wgmma<1>", "exp2f", "wait_wgmma<0>")
    for loop in loops(cuda(FULL, overlap=False)):
        assert "wgmma_rs" not in loop


def test_kept_maxima_leave_no_maxima_in_the_loop() -> None:
    source = generated(build(FULL, keeps_maxima=True, powers_first=24))
    loops = re.findall(r"for \(int step\w* = 1;.*?end_powers.*?;", source, re.DOTALL)
    assert len(loops) == 2  # of each group
    for loop in loops:
        assert "MaxOp" not in loop
        assert in_order(loop, "wait_wgmma<1>", "start_powers<24>", "wait_wgmma<0>", "end_powers<128, 128, 24, ")


def test_an_early_wait_stands_between_maxima_and_powers() -> None:
    for loop in loops(cuda(FULL, early_wait=True)):
        assert in_order(loop, "wait_wgmma<1>", "MaxOp", "wait_wgmma<0>", "tie", r"exp2f\(.*exp2f")


def test_a_softmax_by_rows_has_its_factor_before_the_powers() -> None:
    source = cuda(FULL, by_row=True)
    assert all(in_order(each, "wait_wgmma<1>", "find_row_", "exponentiate_", "wait_wgmma<0>") for each in loops(source))
    assert "MaxOp" not in source
    assert "exponentiate_rows<128, false, true>" in cuda(FULL, by_row=True, late_wait=True)


def test_the_output_is_scaled_under_the_first_product_when_asked() -> None:
    assert all(in_order(loop, "wgmma_ss", r"\*v_", "wgmma_rs") for loop in loops(cuda(FULL, rescale_first=True)))


def test_groups_take_turns() -> None:
    source = cuda(FULL)
    assert set(re.findall(r"__sync_thread_partial\((\d+), 256\)", source)) == {"8", "9"}
    assert "partial" not in cuda(FULL, ping_pong=False)


def test_the_first_group_waits_for_loads_before_its_turn() -> None:
    first, second = loops(cuda(FULL, early_loads=True))
    assert in_order(first, r"K_full\[.*?\.wait", r"V_full\[.*?\.wait", "sync_thread_partial", "wgmma_ss", "wgmma_rs")
    assert first.count(".wait(") == 2
    assert ".wait(" not in second


def test_a_turn_passes_on_between_the_products_when_asked() -> None:
    for loop in loops(cuda(FULL, early_turn=True)):
        assert in_order(loop, "wgmma_ss", "named_barrier_arrive", "wgmma_rs")
        assert loop.count("named_barrier_arrive") == 1


@pytest.mark.parametrize("key", few([FULL, CAUSAL, RAGGED], FULL))
def test_groups_share_one_text(key: str) -> None:
    levers = {"block_N": 112, "epilogue_buffers": 1, "early_loads": True}
    source = cuda(key, **levers, one_text=True)
    assert len(loops(source)) * 2 == len(loops(cuda(key, **levers)))
    assert source.count("warpgroup_reg_alloc<232>") == 1
    assert in_order(
        source, r"await_turn_of\(\(\w+ \+ 8\)\)", "wgmma_ss", r"give_turn_to\(\(\(\(\w+ \+ 1\) & 1\) \+ 8\)\)"
    )
    # The whole block meets once, before its roles part; each group has its own buffer and barrier at the end.
    assert source.count("__syncthreads()") == 1
    assert set(re.findall(r"sync_thread_partial\((\d+), 128\)", source)) == {"12", "13"}
    assert source.count("tma_store(Out_desc") == cuda(key, **levers).count("tma_store(Out_desc")


@pytest.mark.parametrize("ahead", [False, True])
def test_keys_are_loaded_before_the_values_of_the_block_before(ahead: bool) -> None:
    source = cuda(FULL, block_N=112, ahead=ahead, keys_ahead=True)
    # Queries with a buffer of their own come before the last values of the tile before, others after.
    queries = ("Q_desc, ", r"0 < \(done") if ahead else (r"0 < \(done", "Q_desc, ")
    assert in_order(source, "K_empty.*?K_desc, ", *queries)
    assert in_order(source, r"for \(int step = 0", r"V_empty\[.*?\.wait", "V_desc, ", r"V_empty\[.*?\.wait", "V_desc, ")
    assert len(re.findall(r"tma_load\(K_desc", source)) == 1


@pytest.mark.parametrize("key", [FULL, CAUSAL])
def test_two_blocks_share_loads(key: str) -> None:
    source = cuda(key, block_N=112, keys_ahead=True, cluster=2)
    assert set(re.findall(r"tma_load_multicast\((\w)_desc[^;]*\(uint16_t\)\(3\)", source)) == {"K", "V"}
    assert "tma_load(Q_desc" in source
    # Both groups of both blocks free a stage, and each block waits for the whole of what the first one loads.
    assert len(re.findall(r"[KV]_empty\[\d\]\.init\(4\)", source)) == 4
    assert set(re.findall(r"[KV]_empty\[.*?\]\.arrive\((.*?)\);", source)) == {"(((int)threadIdx.x) & 127)"}
    depth = {FULL: 128, CAUSAL: 192}[key]
    assert set(re.findall(r"K_full\[.*?\]\.expect_transaction\((\d+)\)", source)) == {str(112 * depth * 2)}
    assert source.count("tl::cluster_sync();") == 2  # before the first load, after the last


def launch(key: str, folder: Path, broken: tuple[str, str] | None = None, **levers: int) -> Callable[..., None]:
    """What the text for two blocks computes on this CPU; the heads are 64 wide."""
    program = build(key, **{"num_sms": 2, "epilogue_buffers": 1, "keys_ahead": True, **levers})
    boxes = dict.fromkeys(("Q", "K", "V", "Out"), ((3, 2, 1, 0), (64, 64, 1, 1)))
    boxes |= dict.fromkeys(("K", "V"), ((3, 2, 1, 0), (64, levers["block_N"], 1, 1)))
    return emulated(program, 2, boxes, folder, broken, levers.get("cluster", 1))


SMALL = "attention_bf16fp32_1x1x1x512x64x64"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "levers"),
    [
        (SMALL, {"block_N": 80, "cluster": 2}),
        (f"causal{SMALL}", {"block_N": 64, "ahead": True, "cluster": 2}),
        (f"causal{SMALL}", {"block_N": 64, "ahead": True, "by_row": True, "late_wait": True}),
        (f"causal{SMALL}", {"block_N": 64, "ahead": True, "keeps_maxima": True, "powers_first": 16}),
        (SMALL, {"block_N": 128, "keeps_maxima": True}),
        (SMALL, {"block_N": 64, "one_array": True}),
        (SMALL.replace("x512x", "x500x"), ATTENTION["exact64"]),
    ],
)
def test_keys_ahead_shared_or_by_rows_give_the_attention(key: str, levers: dict[str, int], tmp_path: Path) -> None:
    assert wrong(key, launch(key, tmp_path, None, **levers)) == set()


@pytest.mark.slow
def test_kept_maxima_are_corrected_where_later_scores_are_larger(tmp_path: Path) -> None:
    """A tile's last keys come first. Their maxima are too small for the first keys, by more than float32 holds."""
    key, levers = SMALL, {"block_N": 64, "keeps_maxima": True, "powers_first": 16}
    problem = parse_shape_key(key)
    q, k, v = (
        torch.randn(shape, generator=torch.Generator().manual_seed(seed)) for seed, shape in enumerate(problem.inputs)
    )
    k *= torch.linspace(60, 1, problem.dims[3])[:, None]
    inputs = [each.bfloat16() for each in (q, k, v)]
    q, k, v = (each.float() for each in inputs)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    for broken, fits in ((None, True), ((r"totals\[row\] \*= scale\[row\];", ""), False)):
        out = torch.empty(problem.output_shape, dtype=torch.bfloat16)
        folder = tmp_path / str(fits)
        folder.mkdir()
        launch(key, folder, broken, **levers)(*inputs, out)
        assert torch.allclose(out.float(), expected, atol=0.03) == fits


@pytest.mark.slow
def test_a_weight_that_is_most_of_its_row_is_exact_when_asked(tmp_path: Path) -> None:
    """The heavy key comes last, with some thousand times the power of another; bf16 would round it by up to 2^-9."""
    problem = parse_shape_key(SMALL)
    q, k, v = (torch.zeros(shape) for shape in problem.inputs)
    q[..., 0], k[..., 5, 0] = torch.linspace(56, 80, problem.dims[3]).bfloat16().float(), 1.0
    v[..., 5, :] = torch.linspace(1, 2, v.shape[-1]).bfloat16().float()
    inputs = [each.bfloat16() for each in (q, k, v)]
    expected = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double()).bfloat16()
    exact = {}
    for exact_weights in (False, True):
        out = torch.empty(problem.output_shape, dtype=torch.bfloat16)
        levers = {"block_N": 64, "keeps_maxima": True, "exact_weights": exact_weights}
        folder = tmp_path / str(exact_weights)
        folder.mkdir()
        launch(SMALL, folder, None, **levers)(*inputs, out)
        exact[exact_weights] = (out == expected).double().mean().item()
    assert exact[False] < 0.8
    assert exact[True] > 0.99


@pytest.mark.slow
def test_a_stage_that_one_block_frees_for_both_shows(tmp_path: Path) -> None:
    broken = (r"K_empty\[(\d)\]\.init\(4\)", r"K_empty[\1].init(2)")
    assert faults(SMALL, launch(SMALL, tmp_path, broken, block_N=80, cluster=2))


def test_a_cluster_masks_the_diagonals_of_both_tiles() -> None:
    problem = parse_shape_key(CAUSAL)
    levers = {"block_N": 64, "num_stages": 2, "consumer_groups": 2, "ahead": False, "epilogue_buffers": 0}
    alone, pair = Block.of(problem, **levers), Block.of(problem, **levers, cluster=2)
    assert (alone.masked, pair.masked) == (2, 4)
    tiles = Tiles.of(pair, 1, 6)
    assert tiles.blocks == 3
    assert sorted(index for block in tiles.schedule for index in block) == list(range(512 // 256 * 8))
    assert [tiles.key_blocks(row) for row in range(tiles.rows)] == [4, 8]


def test_only_blocks_at_the_diagonal_or_the_end_are_masked() -> None:
    least = re.escape("0x1p+100")
    assert not re.search(least, cuda(FULL))
    assert re.search(least, cuda(RAGGED))
    assert not any(re.search(least, loop) for loop in loops(cuda(CAUSAL)))


def test_a_row_past_the_end_is_not_stored() -> None:
    # The row of a group's first thread is 64 or 128 too high, since the thread's number is counted from the block's.
    assert re.findall(r"\+ m0\w*\) < (\d+)", cuda(RAGGED)) == [str(500 + 64), str(500 + 128)]
    assert "m0) <" not in cuda(FULL)


@pytest.mark.parametrize(("key", "parts"), few([(FULL, 2), (CAUSAL, 2), (RAGGED, 1)], (FULL, 2)))
@pytest.mark.parametrize("buffers", few([1, 2], 2))
def test_the_output_leaves_by_tma_where_it_has_buffers(key: str, parts: int, buffers: int) -> None:
    direct, source = cuda(key, block_N=112), cuda(key, block_N=112, epilogue_buffers=buffers)
    assert "tma_store" not in direct
    assert re.search(r"\(Out \+", direct)
    assert not re.search(r"\(Out \+|\) < 500", source)
    assert source.count("tma_store(Out_desc") == 2 * parts  # of each group
    # A buffer is written when its last store has read it, and stored when all have written.
    wait, sync = rf"tma_store_wait<{buffers - 1}, true>", r"__sync_thread_partial\(1[23], 128\)"
    each = (wait, sync, "buffer", "fence_proxy_async", sync, r"tma_store\(Out_desc")
    assert in_order(source, *each * 2 * parts, "tma_store_wait<0, true>")


def test_one_array_of_a_groups_buffers_has_a_name_of_its_own() -> None:
    source = cuda(FULL, block_N=112, epilogue_buffers=2, one_array=True)
    assert "buffer" not in source
    for array in ("first_outputs", "second_outputs"):
        halves = re.findall(rf"tma_store\(Out_desc.*?{array}\)\[(\d+)\]", source)
        assert halves == ["0", str(64 * 64)]


@pytest.mark.slow
def test_three_groups_and_a_second_buffer_of_queries() -> None:
    source = cuda(FULL, block_N=80, consumer_groups=3, ahead=True)
    assert source.count("warpgroup_reg_alloc<160>") == 3
    assert "Q_full_mem[6]" in source


@pytest.mark.parametrize("dependent_launch", [False, True])
def test_what_may_start_early_waits_for_the_kernel_before(dependent_launch: bool) -> None:
    source = cuda(FULL, dependent_launch=dependent_launch)
    assert (SYNC in source) == (TRIGGER in source) == dependent_launch
    if dependent_launch:
        assert source.index(".init(") < source.index(SYNC) < source.index(TRIGGER) < source.index("tl::tma_load")


def tiles(key: str, heads_at_once: int, num_sms: int | None) -> Tiles:
    block = Block.of(
        parse_shape_key(key), block_N=128, num_stages=2, consumer_groups=2, ahead=False, epilogue_buffers=0
    )
    return Tiles.of(block, heads_at_once, num_sms)


@pytest.mark.parametrize(
    "key", ["attention_bf16fp32_2x4x2x1000x128x128", "causalattention_bf16fp32_2x4x2x1000x128x128"]
)
@pytest.mark.parametrize("heads_at_once", [1, 2, 8])
@pytest.mark.parametrize("num_sms", [1, 6, 132, None])
def test_every_tile_is_done_once(key: str, heads_at_once: int, num_sms: int | None) -> None:
    each = tiles(key, heads_at_once, num_sms)
    if each.scheduled:
        taken = [index for block in each.schedule for index in block]
        assert each.waves == max(map(len, each.schedule))
    else:
        taken = [each.of_block(block, wave) for block in range(each.blocks) for wave in range(each.waves)]
        taken = [index for index in taken if each.exists(index)]
    assert sorted(taken) == list(range(each.total))
    assert {each.decode(index) for index in taken} == {(row, head) for row in range(8) for head in range(8)}


@pytest.mark.parametrize(("shape", "heads_at_once"), [("16x16x16x1024", 16), ("4x16x16x4096", 8), ("1x16x16x16384", 2)])
def test_a_causal_schedule_is_level(shape: str, heads_at_once: int) -> None:
    each = tiles(f"causalattention_bf16fp32_{shape}x128x128", heads_at_once, 132)
    loads = [sum(each.key_blocks(each.decode(index)[0]) + BETWEEN_TILES for index in block) for block in each.schedule]
    assert max(loads) < 1.03 * sum(loads) / len(loads)


def test_the_schedule_is_in_the_kernel() -> None:
    source = generated(build(CAUSAL, block_N=64))
    assert re.search(r"scheduled_tiles\[6\]\[\d\] = \{\n  \{0, ", source)
    assert source.count("scheduled_tile(((int)blockIdx.x)") >= 3  # the producer and two groups
    assert "scheduled_tile" not in generated(build(FULL))


def test_the_front_leaves_attention_without_a_winner_to_the_library() -> None:
    place = Place(torch.device("cuda", 0), "h200", "sm_90a", 132)
    assert default(parse_shape_key(FULL), place).family is None


@pytest.mark.slow
@pytest.mark.parametrize("key", [FULL, CAUSAL])
def test_the_space_has_candidates(key: str) -> None:
    problem = parse_shape_key(key)

    def fits(levers: dict[str, Any]) -> bool:
        try:
            forward(problem, **levers)
        except ValueError:
            return False
        return True

    assert len(list(islice(filter(fits, space(problem, gpus.find("h200"))), 4))) == 4


@pytest.mark.parametrize(
    ("key", "levers", "message"),
    [
        ("matmul_bf16fp32_512x512x256", {}, "operator 'matmul' is not attention"),
        ("attention_f32fp32_1x2x1x96x64x64", {}, "float32 inputs are not supported"),
        ("attention_bf16fp32_1x2x1x96x80x64", {}, "both must be multiples of 64"),
        (FULL, {"block_N": 100}, "block_N=100 is not a multiple of 16"),
        (FULL, {"block_N": 208}, "take 220 registers of a thread; with 2 consumer groups 200 are free"),
        (FULL, {"consumer_groups": 4}, "consumer_groups=4 is not 2 or 3"),
        (FULL, {"num_stages": 0}, "num_stages=0 is not positive"),
        (FULL, {"num_stages": 4}, "bytes of shared memory; a block has 231424"),
        (FULL, {"epilogue_buffers": -1}, "epilogue_buffers=-1 is negative"),
        (FULL, {"block_N": 176, "epilogue_buffers": 2}, "bytes of shared memory; a block has 231424"),
        (FULL, {"one_array": True}, "one_array needs epilogue_buffers"),
        (FULL, {"heads_at_once": 3}, "heads_at_once=3 does not divide the 8 heads"),
        (FULL, {"num_sms": 0}, "num_sms=0 is not positive"),
        (FULL, {"overlap": False, "ahead": True}, "need overlap"),
        (FULL, {"persistent": False, "ahead": True}, "ahead needs persistent"),
        (FULL, {"ping_pong": False, "early_turn": True}, "early_turn need overlap and ping_pong"),
        (FULL, {"overlap": False, "early_loads": True}, "early_turn need overlap and ping_pong"),
        (FULL, {"cluster": 2}, "cluster needs keys_ahead"),
        (FULL, {"late_wait": True}, "late_wait needs by_row"),
        (FULL, {"by_row": True, "partial_sums": False}, "by_row needs partial_sums"),
        (FULL, {"keeps_maxima": True, "growth": 8.0}, "keeps_maxima excludes growth, by_row, early_wait and rescale_f"),
        (FULL, {"keeps_maxima": True, "overlap": False}, "keeps_maxima need overlap, partial_sums"),
        (FULL, {"exact_weights": True}, "exact_weights needs keeps_maxima"),
        (FULL, {"powers_first": 6}, "powers_first=6 is not a multiple of 4"),
        (FULL, {"cluster": 4, "keys_ahead": True}, "cluster=4 is not 1, or 2 with tokens in multiples of 512"),
        (RAGGED, {"cluster": 2, "keys_ahead": True}, "2 with tokens in multiples of 256"),
        (FULL, {"cluster": 2, "keys_ahead": True, "num_sms": 1}, "num_sms=1 is not positive, or less than a cluster"),
    ],
)
def test_impossible_arguments_are_named(key: str, levers: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        build(key, **levers)
    assert "\n" not in str(error.value)


def test_heads_that_cannot_share_keys_are_named() -> None:
    """No shape key says such a problem; what is made by hand does."""
    problem = replace(parse_shape_key("attention_bf16fp32_1x4x2x96x64x64"), dims=(1, 3, 2, 96, 64, 64))
    with pytest.raises(ValueError, match="3 heads cannot share 2"):
        forward(problem, block_N=128, num_sms=6)
