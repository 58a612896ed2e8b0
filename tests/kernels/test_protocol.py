"""Barriers, stages and turns of the warp-specialised families, run from their generated text with late loads."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.iteration import Program
from harness.problem import parse_shape_key
from kernels.gemm import warp_specialized
from kernels.gemm.ping_pong import ping_pong
from tests.kernels.emulation import Outcome, emulate, generated

M, N, K = 512, 768, 320
TILE = dict(block_M=128, block_N=128, block_K=64)
BLOCKS = 4
EVERY_STORE = sorted((m, n) for m in range(0, M, 128) for n in range(0, N, 64))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def text_of(family: Callable[..., Program], operator: str, **levers: int) -> str:
    problem = parse_shape_key(f"{operator}_fp16fp32_{M}x{N}x{K}")
    return generated(family(problem, **TILE, num_sms=BLOCKS, **levers))


def run(source: str, operator: str, groups: int, folder: Path) -> Outcome:
    problem = parse_shape_key(f"{operator}_fp16fp32_{M}x{N}x{K}")
    return emulate(source, problem, **TILE, groups=groups, blocks=BLOCKS, folder=folder)


@pytest.mark.parametrize("operator", ["matmul", "linear"])
@pytest.mark.parametrize(("num_stages", "wgmma_in_flight"), [(2, 0), (3, 1), (4, 1)])
def test_ping_pong_computes_every_tile_once(
    operator: str, num_stages: int, wgmma_in_flight: int, tmp_path: Path
) -> None:
    source = text_of(ping_pong, operator, num_stages=num_stages, wgmma_in_flight=wgmma_in_flight)
    found = run(source, operator, 2, tmp_path)
    assert found.wrong is None
    assert sorted(found.stored) == EVERY_STORE


def test_warp_specialized_computes_every_tile_once(tmp_path: Path) -> None:
    found = run(text_of(warp_specialized, "matmul", num_stages=3, consumer_groups=1), "matmul", 1, tmp_path)
    assert found.wrong is None
    assert sorted(found.stored) == EVERY_STORE


BROKEN = {
    "nobody waits for a turn": (r"turn\[\d\]\.wait\(.*?\);\n", "", "."),
    "nobody passes the turn on": (r"turn\[1\]\.arrive\(\);", ";", r"deadlock: turn\[1\] never came"),
    "a stage is freed while it is read": (r"tl::wait_wgmma<1>\(\);\n\s*if \(0 < (\w+)\) \{", r"if (1) {", "."),
    "a stage is not freed": (r"(empty\[[^;]*)\.arrive\(\);", r";", "deadlock: .* never came"),
    "a load is announced too small": (r"arrive_and_expect_tx\(16384\)", "arrive_and_expect_tx(8192)", "."),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_protocol_is_seen(broken: str, tmp_path: Path) -> None:
    pattern, instead, says = BROKEN[broken]
    source, count = re.subn(pattern, instead, text_of(ping_pong, "matmul", num_stages=3))
    assert count
    wrong = run(source, "matmul", 2, tmp_path).wrong
    assert wrong is not None
    assert re.search(says, wrong)
