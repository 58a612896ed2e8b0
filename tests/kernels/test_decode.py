"""Decoding kernels and attention of uneven lengths, judged by what their generated text computes on the CPU."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.iteration import Program
from harness.judge.facts.problem import parse_shape_key
from kernels.latent_decode import latent_decode
from kernels.paged_decode import paged_decode
from kernels.varlen_attention import varlen
from tests.harness.operators.launches import wrong
from tests.kernels.emulation import SYNC, TRIGGER, generated
from tests.kernels.emulation.numbers import emulated, faults
from tests.lanes import few

PAGED = "pageddecode_bf16fp32_3x16x2x64x3x64"
LATENT = "mladecode_bf16fp32_3x64x256x64x3x64"
VARLEN = "varlenattention_bf16fp32_4x2x1x512x384x64"


COUNTED: dict[str, Any] = {"row_cost": 1, "warps_look_up": True}
MANY = "pageddecode_bf16fp32_70x8x4x64x2x16"  # three sequences of a lane


@pytest.mark.parametrize(
    ("shape_key", "block_N", "blocks", "levers"),
    few(
        [
            (PAGED, 32, 3, {}),
            (PAGED, 64, 5, {}),
            (PAGED, 16, 40, {}),
            (PAGED, 32, 3, COUNTED),
            (PAGED, 16, 40, {"row_cost": 3}),
            (MANY, 16, 9, COUNTED),
            (PAGED, 32, 3, {**COUNTED, "bring_early": True}),
            (PAGED, 32, 4, {"heads_together": True}),
            (PAGED, 16, 40, {**COUNTED, "heads_together": True}),
            (MANY, 16, 8, {**COUNTED, "heads_together": True}),
        ],
        (PAGED, 32, 3, COUNTED),
    ),
)
def test_shares_of_pages_give_the_attention_of_each_sequence(
    shape_key: str, block_N: int, blocks: int, levers: dict[str, Any], tmp_path: Path
) -> None:
    program = paged_decode(parse_shape_key(shape_key), block_N=block_N, num_stages=3, num_sms=blocks, **levers)
    pages = (3, 1, 2, 0), (64, block_N, 1, 1)
    assert wrong(shape_key, emulated(program, blocks, {"K": pages, "V": pages}, tmp_path)) == set()


@pytest.mark.parametrize("dependent_launch", [False, True])
def test_what_may_start_early_waits_for_the_kernel_before(dependent_launch: bool) -> None:
    program = paged_decode(parse_shape_key(PAGED), block_N=32, num_stages=3, dependent_launch=dependent_launch)
    source = generated(program)
    assert (SYNC in source) == (TRIGGER in source) == dependent_launch
    if dependent_launch:
        text = source[source.index("main_kernel") :]
        assert text.index(".init(") < text.index(SYNC) < text.index(TRIGGER) < text.index("lengths[")


def test_only_what_is_brought_early_comes_before_the_kernel_before_has_ended() -> None:
    levers = {**COUNTED, "bring_early": True, "dependent_launch": True}
    source = generated(paged_decode(parse_shape_key(PAGED), block_N=32, num_stages=3, **levers))
    before, after = source[source.index("main_kernel") :].split(SYNC)
    reads = [line.strip() for line in before.splitlines() if "table[" in line or "lengths[" in line]
    assert len(reads) == 2
    assert all(line.startswith("bring_line(") for line in reads)
    assert "bring_line" not in after


BROKEN = {
    "nothing waits for the values": (r"V_full\[[^;]*\.wait\([^;]*\);", ";"),
    "nothing waits for a free stage": (r"K_empty\[[^;]*\.wait\([^;]*\);", ";"),
    "a part is left out": (r"first = \(\(", "first = 1 + (("),
    "what lies beyond a length is read": (r"if \(left < \d+\) \{", "if (0) {"),
    "a lane counts one of its sequences": (r"own = \(own \+ (counts\[\w+\])\);", r"own = \1;"),
}


@pytest.mark.parametrize("broken", few(BROKEN, "nothing waits for the values"))
def test_a_mistake_in_the_text_shows_in_the_numbers(broken: str, tmp_path: Path) -> None:
    program = paged_decode(parse_shape_key(MANY), block_N=16, num_stages=2, num_sms=5, **COUNTED)
    pages = (3, 1, 2, 0), (64, 16, 1, 1)
    launch = emulated(program, 5, {"K": pages, "V": pages}, tmp_path, BROKEN[broken])
    assert faults(MANY, launch)


def test_a_block_that_takes_another_head_shows_in_the_numbers(tmp_path: Path) -> None:
    program = paged_decode(parse_shape_key(PAGED), block_N=32, num_stages=2, num_sms=4, heads_together=True, **COUNTED)
    pages = (3, 1, 2, 0), (64, 32, 1, 1)
    another = r"(cursor\[2\] = )\(\(\(int\)blockIdx\.x\) & 1\);", r"\1 0;"
    assert faults(PAGED, emulated(program, 4, {"K": pages, "V": pages}, tmp_path, another))


@pytest.mark.parametrize(
    ("block_N", "share_scores", "blocks"), few([(32, False, 4), (64, False, 3), (64, True, 3)], (64, True, 3))
)
def test_two_groups_give_the_latent_attention(block_N: int, share_scores: bool, blocks: int, tmp_path: Path) -> None:
    problem = parse_shape_key(LATENT)
    program = latent_decode(problem, block_N=block_N, num_stages=2, share_scores=share_scores, num_sms=blocks)
    launch = emulated(program, blocks, {"cache": ((2, 1, 0), (64, block_N, 1))}, tmp_path)
    assert wrong(LATENT, launch) == set()


ALTERNATE: dict[str, Any] = {"block_N": 64, "num_stages": 2, "alternate": True}
BOXES = dict.fromkeys(("Q", "cache"), ((2, 1, 0), (64, 64, 1)))


@pytest.mark.parametrize(
    ("shape_key", "blocks", "warps_look_up"),
    few(
        [
            ("mladecode_bf16fp32_3x128x256x64x5x64", 6, False),
            ("mladecode_bf16fp32_3x128x256x64x5x64", 6, True),
            ("mladecode_bf16fp32_5x64x256x64x7x64", 16, False),
            ("mladecode_bf16fp32_5x192x256x64x4x128", 9, True),
            ("mladecode_bf16fp32_2x128x512x64x3x64", 4, False),
        ],
        ("mladecode_bf16fp32_3x128x256x64x5x64", 6, True),
    ),
)
def test_groups_that_alternate_give_the_latent_attention(
    shape_key: str, blocks: int, warps_look_up: bool, tmp_path: Path
) -> None:
    """Of two tiles of heads a cluster has both; of one or three each block of threads loads for itself."""
    problem = parse_shape_key(shape_key)
    program = latent_decode(problem, num_sms=blocks, warps_look_up=warps_look_up, **ALTERNATE)
    launch = emulated(program, blocks, BOXES, tmp_path, cluster=2 if problem.dims[1] == 128 else 1)
    assert wrong(shape_key, launch) == set()


BROKEN_TURNS = {
    "nothing waits for the other's weights": (r"told\[1\]\.wait\([^;]*\);", ";"),
    "nothing waits for both tiles": (r"(?<!Q_)empty\[[^;]*\.wait\([^;]*\);", ";"),
    "what lies beyond a length is read": (r"if \(\(?left[^;{]* < 64\) \{", "if (0) {"),
    "the others' parts are left out": (r"add_registers<\d+>\(v[^;]*\);", ";"),
}


@pytest.mark.parametrize("broken", few(BROKEN_TURNS, "the others' parts are left out"))
def test_a_mistake_in_the_turns_shows_in_the_numbers(broken: str, tmp_path: Path) -> None:
    shape_key = "mladecode_bf16fp32_3x128x256x64x5x64"
    program = latent_decode(parse_shape_key(shape_key), num_sms=6, **ALTERNATE)
    launch = emulated(program, 6, BOXES, tmp_path, BROKEN_TURNS[broken], cluster=2)
    assert faults(shape_key, launch)


ALIGNED = {"block_N": 64, "num_stages": 2}


@pytest.mark.parametrize(
    ("kernel", "shape_key", "levers", "message"),
    [
        (paged_decode, PAGED, {"row_cost": -1}, "row_cost=-1 is below 0"),
        (paged_decode, PAGED, {"bring_early": True}, "bring_early needs warps_look_up"),
        (paged_decode, PAGED, {"heads_together": True, "num_sms": 5}, "as many blocks of threads for each head"),
        (paged_decode, "pageddecode_bf16fp32_300x16x2x64x3x64", COUNTED, "for 256 sequences at most, not 300"),
        (latent_decode, LATENT, {"warps_look_up": True}, "for groups that alternate"),
        (latent_decode, LATENT, {"row_cost": 3}, "for groups that alternate"),
        (latent_decode, LATENT, {"alternate": True, "row_cost": 0}, "row_cost=0 is below 1"),
    ],
)
def test_levers_that_cannot_work_are_refused(
    kernel: Callable[..., Program], shape_key: str, levers: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        kernel(parse_shape_key(shape_key), **ALIGNED, **levers)


KEPT: dict[str, Any] = {"keeps_maxima": True, "powers_first": 16}


@pytest.mark.parametrize(
    ("block_N", "buffers", "levers"),
    few([(80, 1, {}), (128, 0, {}), (128, 0, {"dynamic": False}), (64, 1, KEPT | {"one_array": True})], (80, 1, {})),
)
def test_uneven_tiles_give_the_attention_within_each_sequence(
    block_N: int, buffers: int, levers: dict[str, Any], tmp_path: Path
) -> None:
    problem = parse_shape_key(VARLEN)
    program = varlen(problem, block_N=block_N, epilogue_buffers=buffers, num_sms=3, **levers)
    boxes = {
        "Q": ((2, 0, 1), (64, 64, 1)),
        "K": ((2, 0, 1), (64, block_N, 1)),
        "V": ((2, 0, 1), (64, block_N, 1)),
        "Out": ((2, 0, 1), (64, 64, 1)),
    }
    assert wrong(VARLEN, emulated(program, 3, boxes, tmp_path)) == set()
