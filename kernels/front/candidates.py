"""Candidates: the tiles that a product on Hopper may be computed by, each under its name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from harness.judge.facts.problem import Problem
from kernels.front.arguments import CAUSAL
from kernels.front.choice import Choice
from kernels.hopper import NUM_SMS

WARP_SPECIALIZED: Final = "kernels.gemm.warp_specialized"
PING_PONG: Final = "kernels.gemm.ping_pong"
STREAM_K: Final = "kernels.gemm.stream_k"
SPLIT_K: Final = "kernels.gemm.split_k"
FLASH_ATTENTION: Final = "kernels.flash_attention.forward"
SWIZZLED_COLUMNS: Final = 64  # of two bytes: a swizzled row of 128 bytes
MOST_REGISTERS: Final = (24, 240)  # for 208 accumulators a thread


@dataclass(frozen=True, slots=True)
class Tile:
    """A family with levers, and the tile of C that a block computes at a time."""

    family: str
    levers: Mapping[str, Any]

    @property
    def shape(self) -> tuple[int, int]:
        return self.levers["block_M"], self.levers["block_N"]

    def takes(self, problem: Problem) -> bool:
        """A matmul's rows of B are stored in swizzled pieces of 64 columns; other widths make many short loads."""
        return problem.operator != "matmul" or self.shape[1] % SWIZZLED_COLUMNS == 0


def tile_with(family: str, block_M: int, block_N: int, block_K: int, num_stages: int, **levers: Any) -> Tile:
    sizes = {"block_M": block_M, "block_N": block_N, "block_K": block_K, "num_stages": num_stages}
    return Tile(family, sizes | levers)


def _wide(block_M: int, block_N: int, num_stages: int, **more: Any) -> Tile:
    levers = {"consumer_groups": 2, "group_M": 16, "persistent": True, "wgmma_in_flight": 0, "dependent_launch": True}
    return tile_with(WARP_SPECIALIZED, block_M, block_N, 64, num_stages, **levers | more)


def _single(block_M: int, block_N: int, block_K: int, num_stages: int, **more: Any) -> Tile:
    levers = {"consumer_groups": block_M // 64, "persistent": False, "dependent_launch": True}
    return tile_with(WARP_SPECIALIZED, block_M, block_N, block_K, num_stages, **levers | more)


def _turns(block_N: int, num_stages: int, **more: Any) -> Tile:
    return tile_with(PING_PONG, 128, block_N, 64, num_stages, **{"group_M": 16, "dependent_launch": True} | more)


def _stream(block_N: int, num_stages: int, **more: Any) -> Tile:
    return tile_with(STREAM_K, 128, block_N, 64, num_stages, **{"cluster_M": 1} | more)


def _split(block_M: int, num_stages: int, split: int, **more: Any) -> Tile:
    levers = {"consumer_groups": block_M // 64, "split": split, "dependent_launch": True}
    return tile_with(SPLIT_K, block_M, 128, 64, num_stages, **levers | more)


CANDIDATES: Final[dict[str, Tile]] = {
    "wide256": _wide(128, 256, 4),
    "wide256x2": _wide(128, 256, 4, cluster_M=2),
    "wide192": _wide(128, 192, 4),
    "tall192": _wide(256, 192, 3, epilogue_buffers=1, group_M=8),
    "tall192x2": _wide(256, 192, 3, epilogue_buffers=1, group_M=8, cluster_M=2),
    "tall128": _wide(256, 128, 4, epilogue_buffers=1),
    "turns192": _turns(192, 4),
    "turns192x2": _turns(192, 4, cluster_M=2),
    "turns128": _turns(128, 6),
    "turns144": _turns(144, 5, epilogue_N=72),
    "turns160": _turns(160, 5, epilogue_N=32),
    "turns176": _turns(176, 4, epilogue_N=88),
    "turns208": _turns(208, 4, epilogue_N=104, registers=MOST_REGISTERS),
    "wide224": _wide(128, 224, 4, epilogue_N=32),
    "wide240": _wide(128, 240, 4, epilogue_N=48),
    "tall112": _wide(256, 112, 4, epilogue_N=56, epilogue_buffers=1, group_M=8),
    "tall144": _wide(256, 144, 3, epilogue_N=72, epilogue_buffers=1, group_M=8),
    "tall160": _wide(256, 160, 4, epilogue_N=32, epilogue_buffers=1, group_M=8),
    "tall176": _wide(256, 176, 3, epilogue_N=88, epilogue_buffers=1, group_M=8),
    "tall208": _wide(256, 208, 3, epilogue_N=104, epilogue_buffers=1, group_M=8, registers=MOST_REGISTERS),
    "stream256": _stream(256, 4),
    "stream256x2": _stream(256, 4, cluster_M=2),
    "stream128": _stream(128, 6),
    "single128": _single(128, 128, 64, 6),
    "single64": _single(128, 64, 64, 8),
    "low256": _single(64, 256, 64, 5),
    "low128": _single(64, 128, 64, 8),
    "low64": _single(64, 64, 128, 6, cluster_N=2, group_M=1, stagger=2),
    "low64alone": _single(64, 64, 128, 6),
    "split128": _split(128, 4, 2),
    "split64": _split(64, 7, 2),
    "split64x4": _split(64, 6, 4, epilogue_N=32),
}


def _kept(powers_first: int, block_N: int = 128, **more: Any) -> dict[str, Any]:
    levers = {"block_N": block_N, "ahead": True, "epilogue_buffers": 2, "keys_ahead": True, "keeps_maxima": True}
    return {**levers, "powers_first": powers_first, **more}


_WIDE_KEYS: Final = {"ahead": False, "epilogue_buffers": 1}  # what fits beside keys of 192

ATTENTION: Final[dict[str, dict[str, Any]]] = {
    "kept64": _kept(28, epilogue_buffers=1),
    "kept64wide": _kept(40, 176, epilogue_buffers=1),
    "kept128": _kept(28),
    "kept192": _kept(40, **_WIDE_KEYS),
    "exact64": _kept(28, epilogue_buffers=1, exact_weights=True),
    "exact128": _kept(28, exact_weights=True),
    "exact192": _kept(48, **_WIDE_KEYS, exact_weights=True),
    "ahead128": {"block_N": 128, "ahead": True, "epilogue_buffers": 2},
    "late176": {"block_N": 176, "ahead": False, "epilogue_buffers": 1},
    "late128": {"block_N": 128, "ahead": False, "rescale_first": True, "epilogue_buffers": 1},
    "late80": {"block_N": 80, "ahead": False, "rescale_first": True, "epilogue_buffers": 0},
}
KEYS_AT_ONCE: Final = 1 << 15  # of heads at work, with their values in L2


def choice_of(name: str, problem: Problem, sms: int = NUM_SMS, why: str = "measured") -> Choice:
    if problem.operator in CAUSAL:
        return Choice(why, FLASH_ATTENTION, _attention_levers(name, problem, sms))
    tile = CANDIDATES[name]
    persistent = tile.levers.get("persistent", tile.family in (PING_PONG, STREAM_K))
    return Choice(why, tile.family, {**tile.levers, "num_sms": sms} if persistent else tile.levers)


def _attention_levers(name: str, problem: Problem, sms: int) -> dict[str, Any]:
    batch, heads, shared, tokens, *_ = problem.dims
    most = min(heads, max(1, KEYS_AT_ONCE // tokens)) if CAUSAL[problem.operator] else heads // shared
    return {
        **ATTENTION[name],
        "heads_at_once": next(each for each in range(most, 0, -1) if batch * heads % each == 0),
        "num_sms": sms,
    }
