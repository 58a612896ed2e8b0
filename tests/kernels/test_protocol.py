"""Barriers, stages and turns of the warp-specialised families, run from their generated text with late loads."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.iteration import Program
from harness.judge.facts.problem import parse_shape_key
from kernels.gemm import ping_pong, split_k, stationary, warp_specialized
from tests.kernels.emulation import Outcome, emulate, generated
from tests.lanes import few

M, N, K = 512, 768, 320
TILE = dict(block_M=128, block_N=128, block_K=64)
BLOCKS = 4
EVERY_STORE = sorted((m, n) for m in range(0, M, 128) for n in range(0, N, 64))


def text_of(family: Callable[..., Program], operator: str, **levers: int) -> str:
    problem = parse_shape_key(f"{operator}_fp16fp32_{M}x{N}x{K}")
    return generated(family(problem, **TILE, num_sms=BLOCKS, **levers))


def run(source: str, operator: str, groups: int, folder: Path) -> Outcome:
    problem = parse_shape_key(f"{operator}_fp16fp32_{M}x{N}x{K}")
    return emulate(source, problem, **TILE, groups=groups, blocks=BLOCKS, folder=folder)


@pytest.mark.parametrize("operator", few(["matmul", "linear"], "matmul"))
@pytest.mark.parametrize(("num_stages", "wgmma_in_flight"), few([(2, 0), (3, 1), (4, 1)], (3, 1)))
def test_ping_pong_computes_every_tile_once(
    operator: str, num_stages: int, wgmma_in_flight: int, tmp_path: Path
) -> None:
    source = text_of(ping_pong, operator, num_stages=num_stages, wgmma_in_flight=wgmma_in_flight)
    found = run(source, operator, 2, tmp_path)
    assert found.wrong is None
    assert sorted(found.stored) == EVERY_STORE


def stationary_text(operator: str = "matmul", **levers: int) -> str:
    family: Callable[..., Program] = stationary
    return generated(family(parse_shape_key(f"{operator}_fp16fp32_{M}x{N}x{K}"), **TILE, **levers))


@pytest.mark.parametrize("operator", few(["matmul", "linear"], "matmul"))
@pytest.mark.parametrize(("num_stages", "wgmma_in_flight", "lag"), few([(2, 0, 0), (3, 1, 0), (3, 1, 2)], (3, 1, 2)))
def test_stationary_computes_every_tile_once(
    operator: str, num_stages: int, wgmma_in_flight: int, lag: int, tmp_path: Path
) -> None:
    source = stationary_text(operator, num_stages=num_stages, wgmma_in_flight=wgmma_in_flight, lag=lag)
    found = run(source, operator, 2, tmp_path)
    assert found.wrong is None
    assert sorted(found.stored) == EVERY_STORE


BROKEN_STATIONARY = {
    "nothing waits for the rows": (r"kept\[\w+\]\.wait\(0\);", ";", "."),
    "the rows come with every tile": (r"if \(own == 0\) \{", "if (1) {", "."),
}


@pytest.mark.parametrize("broken", few(BROKEN_STATIONARY, "nothing waits for the rows"))
def test_a_broken_hold_on_the_rows_is_seen(broken: str, tmp_path: Path) -> None:
    pattern, instead, says = BROKEN_STATIONARY[broken]
    source, count = re.subn(pattern, instead, stationary_text(num_stages=3))
    assert count
    wrong = run(source, "matmul", 2, tmp_path).wrong
    assert wrong is not None
    assert re.search(says, wrong)


@pytest.mark.parametrize("stagger", few([0, 2], 2))
def test_warp_specialized_computes_every_tile_once(stagger: int, tmp_path: Path) -> None:
    source = text_of(warp_specialized, "matmul", num_stages=3, consumer_groups=1, stagger=stagger)
    found = run(source, "matmul", 1, tmp_path)
    assert found.wrong is None
    assert sorted(found.stored) == EVERY_STORE


SHARED = parse_shape_key(f"linear_fp16fp32_256x256x{K}")  # four tiles


def run_split(source: str, split: int, groups: int, folder: Path) -> Outcome:
    return emulate(source, SHARED, **TILE, groups=groups, blocks=4 * split, folder=folder, cluster=split)


def split_text(split: int, groups: int) -> str:
    family: Callable[..., Program] = split_k
    levers = dict(num_stages=2, consumer_groups=groups, split=split, epilogue_N=128 // split)
    return generated(family(SHARED, **TILE, **levers))


@pytest.mark.parametrize(("split", "groups"), few([(2, 1), (2, 2), (4, 1)], (2, 1)))
def test_split_k_adds_every_part_of_K_once(split: int, groups: int, tmp_path: Path) -> None:
    found = run_split(split_text(split, groups), split, groups, tmp_path)
    assert found.wrong is None
    heights, columns = range(0, 256, 128 // groups), range(0, 256, 128 // split)
    assert sorted(found.stored) == sorted((m, n) for m in heights for n in columns)


BROKEN = {
    "nothing waits for a turn": (r"turn\[\d\]\.wait\(.*?\);\n", "", "."),
    "nothing passes the turn on": (r"turn\[1\]\.arrive\(\);", ";", r"deadlock: turn\[1\] never came"),
    "a stage is freed while it is read": (r"tl::wait_wgmma<1>\(\);\n\s*if \(0 < (\w+)\) \{", r"if (1) {", "."),
    "a stage is not freed": (r"(empty\[[^;]*)\.arrive\(\);", r";", "deadlock: .* never came"),
    "a load is announced too small": (r"arrive_and_expect_tx\(16384\)", "arrive_and_expect_tx(8192)", "."),
}


BROKEN_SPLIT = {
    "nothing waits for the other's sums": (r"arrived\[0\]\.wait\(0\);", ";", "a tile has .* products"),
    "both multiply the same steps": (r"\(\(\(int\)blockIdx\.x\) & 1\) \* 64", "0", "a tile has .* different k"),
    "sums go to the sender": (r"(tma_store_cluster\(.*?\(int\)\(.*?) \+ 1\)", r"\1 + 0)", "."),
}


@pytest.mark.parametrize("broken", few(BROKEN_SPLIT, "both multiply the same steps"))
def test_a_broken_split_is_seen(broken: str, tmp_path: Path) -> None:
    pattern, instead, says = BROKEN_SPLIT[broken]
    source, count = re.subn(pattern, instead, split_text(2, 1))
    assert count
    wrong = run_split(source, 2, 1, tmp_path).wrong
    assert wrong is not None
    assert re.search(says, wrong)


@pytest.mark.parametrize("broken", few(BROKEN, "a stage is freed while it is read", "a stage is not freed"))
def test_a_broken_protocol_is_seen(broken: str, tmp_path: Path) -> None:
    pattern, instead, says = BROKEN[broken]
    source, count = re.subn(pattern, instead, text_of(ping_pong, "matmul", num_stages=3))
    assert count
    wrong = run(source, "matmul", 2, tmp_path).wrong
    assert wrong is not None
    assert re.search(says, wrong)
