"""The GEMM families lower for sm_90a, without a GPU, to the instructions they promise."""

import itertools
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.iteration import Program
from harness.judge.facts.problem import parse_shape_key
from kernels.gemm import (
    block_scaled,
    grouped,
    int4_weights,
    ping_pong,
    pipelined,
    split_k,
    stationary,
    stream_k,
    warp_specialized,
)
from kernels.gemm.operands import TensorCoreOperands
from kernels.gemm.raster import Raster
from kernels.gemm.roles import Roles
from kernels.gemm.stream_k.kernel import Split, TailSplit
from tests.kernels.emulation import SYNC, TRIGGER, generated
from tests.lanes import few

MATMUL = "matmul_bf16fp32_512x512x256"
LINEAR = "linear_fp16fp32_512x512x256"
FP8 = "linear_e4m3fp32bf16_512x512x256"
SCALED = "scaledlinear_e4m3fp32bf16_512x576x1024"
BLOCKS = "blockscaledlinear_e4m3fp32bf16_512x576x1024"
GROUPED = "groupedlinear_bf16fp32_384x320x128x6"
INT4 = "int4linear_bf16fp32_16x256x512"
RAGGED = "matmul_bf16fp32_520x504x200"
TILE = dict(block_M=128, block_N=128, block_K=64, num_stages=3)


def cuda(program: Program) -> str:
    source = generated(program)
    # The definition of the kernel, not the inline functions before it.
    return source[source.index('extern "C" __global__') :]


def build(family: Callable[..., Program], key: str, **config: object) -> Program:
    return family(parse_shape_key(key), **config)


@pytest.mark.parametrize("key", [MATMUL, LINEAR, RAGGED])
def test_pipelined_loads_by_tma_and_multiplies_by_wgmma(key: str) -> None:
    source = cuda(build(pipelined, key, **TILE, threads=256))
    assert "tl::tma_load" in source
    assert "wgmma" in source
    assert "tl::tma_store" not in source


def test_pipelined_stores_by_tma_when_asked() -> None:
    assert "tl::tma_store" in cuda(build(pipelined, MATMUL, **TILE, threads=256, epilogue="tma"))


def test_pipelined_takes_shapes_that_tma_cannot() -> None:
    source = cuda(build(pipelined, "matmul_bf16fp32_130x129x67", **TILE, threads=256))
    assert "tl::tma_load" not in source


@pytest.mark.parametrize("key", few([MATMUL, LINEAR, RAGGED], LINEAR, RAGGED))
def test_ping_pong_gives_each_consumer_group_a_whole_tile(key: str) -> None:
    source = cuda(build(ping_pong, key, **TILE | dict(block_N=192), cluster_M=2, num_sms=4))
    assert len(re.findall(r"wgmma_ss<[^>]*64, 192, 16", source)) == 2
    assert "float v[192]" in source
    assert re.findall(r"turn\[(\d)\]\.arrive", source) == ["1", "0"]
    assert "tl::tma_store(C_desc" in source


@pytest.mark.parametrize("key", few([MATMUL, LINEAR, RAGGED], LINEAR, RAGGED))
def test_stationary_loads_its_rows_once_and_B_for_every_tile(key: str) -> None:
    source = cuda(build(stationary, key, **TILE | dict(num_stages=3)))
    before, after = source.split("tl::tma_load(A_desc", 1)
    assert "tl::tma_load(B_desc" in after
    assert re.search(r"if \(own == 0\) \{", before)
    assert re.findall(r"turn\[(\d)\]\.arrive", source) == ["1", "0"]
    assert "tl::tma_store(C_desc" in after


@pytest.mark.parametrize("key", few([MATMUL, LINEAR, RAGGED], LINEAR, RAGGED))
def test_warp_specialized_has_roles_and_an_asynchronous_store(key: str) -> None:
    source = cuda(build(warp_specialized, key, **TILE))
    assert "tl::tma_load(" in source
    assert "tl::wgmma_ss" in source
    assert "tl::tma_store(C_desc" in source
    assert "warpgroup_reg_dealloc<40>" in source  # setmaxnreg
    assert source.count("warpgroup_reg_alloc<232>") == 2
    assert "wait_wgmma<1>" in source
    assert "multicast" not in source
    assert "__launch_bounds__(384, 1)" in source


@pytest.mark.parametrize(("cluster", "multicast"), [("cluster_M", "B_desc"), ("cluster_N", "A_desc")])
def test_a_cluster_multicasts_the_operand_it_shares(cluster: str, multicast: str) -> None:
    source = cuda(build(warp_specialized, MATMUL, **TILE, **{cluster: 2}))
    assert set(re.findall(r"tma_load_multicast(?:<[^>]*>)?\((\w+)", source)) == {multicast}
    assert "tl::cluster_sync()" in source


@pytest.mark.parametrize("cluster_M", [1, 2])
@pytest.mark.parametrize("dependent_launch", [False, True])
def test_what_may_start_early_waits_for_the_kernel_before(cluster_M: int, dependent_launch: bool) -> None:
    """TileLang lets every cluster start early, asked or not."""
    levers = dict(cluster_M=cluster_M, dependent_launch=dependent_launch)
    source = cuda(build(warp_specialized, MATMUL, **TILE, **levers))
    assert (SYNC in source) == (cluster_M > 1 or dependent_launch)
    assert (TRIGGER in source) == dependent_launch
    if SYNC in source:
        assert source.index(".init(") < source.index(SYNC) < source.index("tl::tma_load")
    if TRIGGER in source:  # after the wait: the kernel after next must not overtake this one
        assert source.index(SYNC) < source.index(TRIGGER)


def test_staggered_tiles_begin_later_in_K_and_wrap_around() -> None:
    problem = parse_shape_key(MATMUL)
    program = build(warp_specialized, MATMUL, **TILE, stagger=3, persistent=False)
    assert "(((((int)blockIdx.x) * 3) + k) & 3) * 64" in cuda(program)
    roles = Roles(
        operands=TensorCoreOperands.of(problem),
        block_M=128,
        block_N=128,
        block_K=64,
        num_stages=3,
        consumer_groups=2,
        cluster_M=1,
        cluster_N=1,
        epilogue_N=64,
        epilogue_buffers=1,
        wgmma_in_flight=1,
        stagger=3,
    )
    for tile in range(5):
        starts = [roles.k_start(tile, k, 0) for k in range(roles.k_steps)]
        assert sorted(starts) == [0, 64, 128, 192]
        assert starts[0] == 3 * tile % 4 * 64


def test_a_direct_epilogue_needs_no_store_buffers() -> None:
    direct = cuda(build(warp_specialized, MATMUL, **TILE, epilogue="direct"))
    assert "tl::tma_store" not in direct


def test_one_consumer_group_keeps_its_registers() -> None:
    config = dict(block_M=64, block_N=64, block_K=128, num_stages=4, consumer_groups=1, persistent=False)
    source = cuda(build(warp_specialized, LINEAR, **config))
    assert "warpgroup_reg" not in source
    assert "__launch_bounds__(256, 1)" in source


def test_three_consumer_groups_and_8_bit_inputs() -> None:
    config = dict(block_M=192, block_N=128, block_K=128, num_stages=3, consumer_groups=3)
    source = cuda(build(warp_specialized, FP8, **config))
    assert source.count("warpgroup_reg_alloc<160>") == 3
    assert "kFloat8_e4m3" in source


@pytest.mark.parametrize("key", few([MATMUL, LINEAR, RAGGED], LINEAR, RAGGED))
@pytest.mark.parametrize("split", few([2, 4], 4))
def test_split_k_gives_each_peer_the_columns_that_it_stores(key: str, split: int) -> None:
    share = 128 // split
    source = cuda(build(split_k, key, **TILE, consumer_groups=2, split=split, epilogue_N=share))
    barriers = [str(barrier) for barrier in range(2 * (split - 1))]  # one for each consumer group and peer
    assert sorted(re.findall(r"tl::tma_store_cluster\(.*arrived\[(\d)\]\)", source)) == barriers
    assert sorted(re.findall(r"arrived\[(\d)\]\.wait\(0\)", source)) == barriers
    stores = re.findall(r"tl::tma_store\(C_desc, .*?\]\)\), (.*?), ", source)
    columns = [int(re.findall(r" \+ (\d+)\)$", each)[0]) if " + " in each else 0 for each in stores]
    assert sorted(columns) == sorted([*range(0, 128, share)] * 2)


def test_split_k_reads_every_step_of_K_once() -> None:
    source = cuda(build(split_k, LINEAR, **TILE, split=2))
    assert "for (int k = 0; k < 2; ++k)" in source  # K=256 is four steps of 64, for two blocks
    assert "((k * 128) + ((((int)blockIdx.x) & 1) * 64))" in source


def test_scales_are_multiplied_in_before_the_store() -> None:
    source = cuda(build(warp_specialized, SCALED, **TILE | dict(block_K=128)))
    assert source.count("scale_A[0] * scale_B[0]") == 2  # by each consumer group
    assert "scale_A" not in cuda(build(warp_specialized, FP8, **TILE | dict(block_K=128)))


@pytest.mark.parametrize(("key", "scales"), [(FP8, 0), (SCALED, 2)])
def test_sums_of_a_few_steps_are_promoted(key: str, scales: int) -> None:
    program = build(warp_specialized, key, **TILE | dict(block_N=192, block_K=128), promote_steps=2, unroll=2)
    source = cuda(program)
    assert len(re.findall(r"float v\w*\[96\]", source)) == 4  # two sets for each consumer group
    assert source.count("#pragma unroll 2\n") == 2
    assert len(program.prim_func.params) == 3 + scales


@pytest.mark.parametrize(
    ("levers", "batches"),
    [
        (dict(block_M=128, block_N=128), 2),
        pytest.param(dict(block_M=128, block_N=192), 2, marks=pytest.mark.slow),
        pytest.param(dict(block_M=192, block_N=128, consumer_groups=3), 3, marks=pytest.mark.slow),
        # Two bands each.
        pytest.param(dict(block_M=256, block_N=128, num_stages=3, epilogue_N=32), 4, marks=pytest.mark.slow),
        pytest.param(dict(block_M=128, block_N=128, chain=4), 8, marks=pytest.mark.slow),
        (dict(block_M=128, block_N=128, chain=2, cluster_M=2), 4),
    ],
)
def test_block_scaled_starts_every_batch_afresh_and_scales_it(levers: dict[str, int], batches: int) -> None:
    source = cuda(build(block_scaled, BLOCKS, **{"num_stages": 4} | levers))
    assert source.count("warpgroup_commit_batch") == batches
    assert source.count("((0 < ki") == batches  # no sum goes on from one batch to the next
    assert source.count("* weights[") == batches * (3 if levers["block_N"] == 192 else 1)
    assert "(float*)S_stages" in source


@pytest.mark.parametrize(("key", "cluster_M"), [("matmul_bf16fp32_768x768x512", 2), (LINEAR, 1)])
def test_stream_k_exchanges_partial_sums(key: str, cluster_M: int) -> None:
    program = build(stream_k, key, **TILE, cluster_M=cluster_M, num_sms=14)
    source = cuda(program)
    assert "flag_wait(" in source
    assert "partials" in source
    assert ("multicast" in source) == (cluster_M == 2)
    partials, flags = program.workspaces
    assert (partials.shape, partials.dtype) == ((14, 128, 128), "float32")
    assert (flags.shape, flags.dtype) == ((14, 2), "int32")


def test_stream_k_cuts_nothing_when_waves_are_whole() -> None:
    assert "flag_wait(" not in cuda(build(stream_k, LINEAR, **TILE, cluster_M=1, num_sms=16))


@pytest.mark.parametrize(
    ("key", "block_N", "epilogue_N"), few([(LINEAR, 144, 72), (MATMUL, 160, 32)], (LINEAR, 144, 72))
)
def test_a_width_that_16_divides_is_one_wgmma(key: str, block_N: int, epilogue_N: int) -> None:
    source = cuda(build(warp_specialized, key, **TILE | dict(block_N=block_N), epilogue_N=epilogue_N))
    assert set(re.findall(r"wgmma_ss<[^>]*64, (\d+), 16", source)) == {str(block_N)}


@pytest.mark.parametrize("tiles", [1, 5, 8, 9, 20])
@pytest.mark.parametrize("k_steps", [1, 3, 16])
def test_stream_k_does_every_step_of_every_tile_once(tiles: int, k_steps: int) -> None:
    split = Split.of(tiles, 8, k_steps)
    done = [0] * (tiles * k_steps)
    for cluster in range(split.clusters):
        worked = False
        for index in range(split.segments + split.whole_waves):
            tile, first, steps = (int(each) for each in split.unit(index, cluster))
            for k in range(first, first + max(steps, 0)):
                done[tile * k_steps + k] += 1
                worked = True
            if first == 0 and 0 < steps < k_steps:  # whoever has the rest of the tile is within reach
                assert split.start(cluster + split.peers + 1) >= min((tile + 1) * k_steps, split.run)
        assert worked
    assert set(done) == {1}


@pytest.mark.parametrize(("tiles", "parts"), [(3, 2), (19, 2), (18, 4), (7, 1)])
@pytest.mark.parametrize("k_steps", [4, 8])
def test_a_cut_tail_does_every_step_of_every_tile_once(tiles: int, parts: int, k_steps: int) -> None:
    split = TailSplit.of_parts(tiles, 8, k_steps, parts)
    done, cut = [0] * (tiles * k_steps), list[tuple[int, int]]()
    for cluster in range(split.clusters):
        for index in range(split.segments + split.whole_waves):
            tile, first, steps = (int(each) for each in split.unit(index, cluster))
            for k in range(first, first + steps):
                done[tile * k_steps + k] += 1
            if first == 0 and 0 < steps < k_steps:
                cut.append((cluster, tile))
    assert set(done) == {1}
    for cluster, tile in cut:  # the owner finds the rest of the tile with its peers
        held = [split.unit(split.whole_waves, split.peer(cluster, each)) for each in range(1, split.peers + 1)]
        assert {int(each[0]) for each in held} == {tile}


def test_a_tail_is_cut_into_no_more_parts_than_there_are_clusters() -> None:
    with pytest.raises(ValueError, match="tail_parts=2: 5 tiles remain for 8 clusters"):
        TailSplit.of_parts(13, 8, 16, 2)


@pytest.mark.parametrize(("tiles_M", "tiles_N", "group_M"), [(7, 5, 3), (8, 5, 4), (3, 4, 8)])
def test_a_raster_visits_every_tile_once(tiles_M: int, tiles_N: int, group_M: int) -> None:
    raster = Raster(tiles_M, tiles_N, group_M)
    visited = {tuple(int(each) for each in raster.decode(tile)) for tile in range(raster.total)}
    assert visited == {(m, n) for m in range(tiles_M) for n in range(tiles_N)}


@pytest.mark.parametrize(
    ("family", "key", "change", "message"),
    [
        (warp_specialized, MATMUL, dict(block_M=96), "block_M=96 is not a multiple of 64 rows"),
        (warp_specialized, MATMUL, dict(block_N=72), "block_N=72 is not a multiple of 16 up to 256"),
        (warp_specialized, MATMUL, dict(block_K=24), "block_K=24 is not a multiple of 16"),
        (warp_specialized, MATMUL, dict(num_stages=7), "bytes of shared memory; a block has 231424"),
        (warp_specialized, MATMUL, dict(num_stages=1), "num_stages=1: the producer needs 2"),
        (warp_specialized, MATMUL, dict(consumer_groups=4), "consumer_groups=4 is not 1, 2 or 3"),
        (warp_specialized, MATMUL, dict(cluster_M=2, cluster_N=2), "in one direction"),
        (warp_specialized, MATMUL, dict(cluster_M=3), "a cluster is 1, 2 or 4 blocks"),
        (warp_specialized, MATMUL, dict(epilogue="fast"), "epilogue='fast' is not 'tma' or 'direct'"),
        (warp_specialized, MATMUL, dict(epilogue_N=96), "epilogue_N=96 does not divide"),
        (warp_specialized, MATMUL, dict(registers=(40, 248)), r"producer \+ 2 x consumer at most 504"),
        (warp_specialized, MATMUL, dict(block_M=256, block_N=256, num_stages=2), "take 256 registers"),
        (warp_specialized, MATMUL, dict(stagger=-1), "stagger=-1 is negative"),
        (warp_specialized, MATMUL, dict(wgmma_in_flight=2), "wgmma_in_flight=2 is not 0 or 1"),
        (
            warp_specialized,
            MATMUL,
            dict(block_M=192, block_N=256, num_stages=2, consumer_groups=3),
            "one WGMMA of that width needs 160 registers",
        ),
        (warp_specialized, "matmul_bf16fp32_512x500x256", {}, "row pitch in multiples of 16 bytes; that of B is 1000"),
        (warp_specialized, "matmul_e4m3fp32bf16_512x512x256", {}, "K-major only; use operator linear"),
        (ping_pong, MATMUL, dict(block_M=256), "block_M=256: a consumer group takes 64 or 128 rows"),
        (ping_pong, MATMUL, dict(block_N=256), "128 x 256 accumulators take 256 registers"),
        (ping_pong, MATMUL, dict(num_stages=7), "bytes of shared memory"),
        (stationary, MATMUL, dict(lag=-1), "lag=-1 is negative"),
        (stationary, MATMUL, dict(block_N=256), "128 x 256 accumulators take 256 registers"),
        (stationary, "matmul_bf16fp32_512x512x1024", {}, "bytes of shared memory; a block has 231424"),
        (split_k, MATMUL, dict(split=3), "split=3 is not 2 or 4"),
        (split_k, MATMUL, dict(split=4), "block_N=128 over split=4 blocks is not a multiple of epilogue_N=64"),
        (split_k, MATMUL, dict(num_stages=6, block_M=128), "bytes of shared memory"),
        (stream_k, MATMUL, dict(cluster_M=4), "cluster_M=4 is not 1 or 2"),
        (stream_k, MATMUL, dict(num_sms=1), "num_sms=1 does not hold a cluster"),
        (pipelined, SCALED, dict(threads=256), "operator 'scaledlinear' is not matmul or linear"),
        (warp_specialized, BLOCKS, dict(block_K=128), "'blockscaledlinear' is not matmul or linear or scaledlinear"),
        (
            warp_specialized,
            MATMUL,
            dict(block_N=256, promote_steps=4),
            "two sets of 128 accumulators, of 200 registers",
        ),
        (pipelined, MATMUL, dict(threads=100), "threads=100 is not a whole number of warp groups"),
        (pipelined, MATMUL, dict(threads=256, num_stages=8), "bytes of shared memory; a block has 231424"),
        (pipelined, MATMUL, dict(threads=256, policy="round"), "policy='round' is not one of square"),
        (pipelined, MATMUL, dict(threads=128, block_N=256), "do not fit in registers"),
    ],
)
def test_impossible_arguments_are_named(
    family: Callable[..., Program], key: str, change: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as error:
        build(family, key, **{**TILE, **change})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("key", "change", "message"),
    [
        (FP8, {}, "'linear' is not blockscaledlinear"),
        ("blockscaledlinear_bf16fp32_512x512x256", {}, "the inputs are bfloat16, not of 8 bits"),
        ("blockscaledlinear_e4m3fp32bf16_510x512x256", {}, "M=510: TMA needs rows of S in multiples of 16 bytes"),
        (BLOCKS, dict(chain=3), "chain=3 does not divide the 8 steps of K"),
        (BLOCKS, dict(block_M=256, num_stages=3, epilogue_buffers=1, chain=2), "take 256 registers"),
        (BLOCKS, dict(block_N=192, chain=2), "take 288 registers"),
        (BLOCKS, dict(num_stages=7), "bytes of shared memory"),
        (BLOCKS, dict(block_N=160), "block_N=160 is not a multiple of 64 columns"),
    ],
)
def test_block_scaled_names_impossible_arguments(key: str, change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(block_scaled, key, **{"block_M": 128, "block_N": 128, "num_stages": 4, **change})


WALK = """
#include <cstdint>
#include <cstdio>
struct {{ int x; }} blockIdx;
int main() {{
  int cursor[6], along, own, across, ends[] = {{{ends}}};
  for (blockIdx.x = 0; blockIdx.x < {blocks}; ++blockIdx.x) {{
{walk}
    std::printf("%d %d %d\\n", cursor[0], cursor[4], cursor[5]);
{closing}
  }}
}}
"""


@pytest.mark.parametrize("rows_first", few([True, False], True))
def test_grouped_walks_over_the_tiles_of_every_expert_once(rows_first: bool, tmp_path: Path) -> None:
    """Run the producer's walk from the generated text: experts without rows come first, in the middle and last."""
    source = cuda(build(grouped, GROUPED, **TILE, num_sms=5, rows_first=rows_first))
    walk = source[source.index("cursor[0] = 0;") : source.index("for (int k = 0;")]
    closing = "}" * (walk.count("{") - walk.count("}"))
    ends = [0, 130, 131, 131, 384, 384]
    text = WALK.format(ends=", ".join(map(str, ends)), blocks=5, walk=walk, closing=closing)
    (tmp_path / "walk.cpp").write_text(text)
    subprocess.run(["g++", "walk.cpp", "-o", "walk"], cwd=tmp_path, check=True)
    done = subprocess.run(["./walk"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=30)
    expected = [
        (expert, row, column)
        for expert, (start, end) in enumerate(itertools.pairwise([0, *ends]))
        for row in range(start, end, 128)
        for column in range(3)
    ]
    assert sorted(tuple(map(int, line.split())) for line in done.stdout.splitlines()) == expected


def test_grouped_stores_no_row_of_the_next_expert() -> None:
    source = cuda(build(grouped, GROUPED, **TILE, skip_idle=True))
    assert "tma_store(" in source
    assert source.count("wgmma_ss") == 2
    before = source.split("*(uint4*)(C ")[:-1]
    assert len(before) == 4  # two halves of a tile in two buffers each, where it has rows of the next expert
    assert all("< cursor[2])" in each[-3000:] for each in before)


def test_int4_weights_are_unpacked_into_the_operand_of_wgmma() -> None:
    source = cuda(build(int4_weights, INT4, block_M=16, num_stages=4, consumer_groups=2))
    assert source.count("unpack<false>(") == source.count("wgmma_rs") == 2
    assert "empty[0].init(4)" in source  # each warp of the group that reads the stage
    assert "scale_rows" not in source
    clustered = cuda(
        build(int4_weights, INT4, block_M=16, num_stages=4, consumer_groups=1, scaled="weights", cluster=2)
    )
    assert "tma_load_multicast" in clustered
    assert "empty[0].init(8)" in clustered
    assert "scale_rows" in clustered


@pytest.mark.parametrize(
    ("family", "key", "change", "message"),
    [
        (grouped, LINEAR, {}, "is not groupedlinear"),
        (grouped, GROUPED.replace("bf16", "f32"), {}, "float32 inputs are not supported"),
        (grouped, GROUPED, dict(turns=True, skip_idle=True), "skip_idle is for groups that share a tile"),
        (grouped, GROUPED, dict(epilogue="none"), "is not 'tma' or 'direct'"),
        (int4_weights, LINEAR, {}, "is not int4linear"),
        (int4_weights, INT4.replace("bf16", "fp16"), {}, "only bfloat16"),
        (int4_weights, INT4.replace("x256x", "x96x"), {}, "N=96 is not a multiple of 64"),
        (int4_weights, INT4, dict(cluster=3), "cluster=3"),
        (int4_weights, INT4, dict(scaled="both"), "is not 'sums' or 'weights'"),
        (int4_weights, INT4, dict(consumer_groups=3), "is not a multiple of consumer_groups=3"),
        (int4_weights, INT4, dict(num_stages=64), "bytes of shared memory"),
    ],
)
def test_grouped_and_int4_weights_name_impossible_arguments(
    family: Callable[..., Program], key: str, change: dict[str, object], message: str
) -> None:
    tile = TILE if family is grouped else dict(block_M=16, num_stages=4)
    with pytest.raises(ValueError, match=message):
        build(family, key, **{**tile, **change})
