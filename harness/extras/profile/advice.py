"""What to try next: the ideas for each bound, applied to one kernel, with the figures that suggest them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from harness.extras.profile.bottleneck import BUSY, COMPUTE_UNITS, FULL, MEMORY_LEVELS, NEAR, SATURATED
from harness.extras.profile.case import Case
from harness.judge.facts.architectures import WARP_GROUP, has_wgmma
from harness.records.profiles import Bound, Idea

MOST_IDEAS: Final = 5
GOOD_FILL: Final = 0.9  # of the last wave and those before it together
CONFLICTS: Final = 0.05  # of all passes through shared memory
SHORT_LOOP: Final = 16  # steps of K, under which an epilogue weighs
TRAFFIC: Final = 1.5  # of the fewest bytes that must move
WRITTEN: Final = 0.3  # of the bytes from and to DRAM, from which on it matters what the L2 gives up first
TILE_SIZES: Final = ((64, 128, 256), (64, 128, 192, 256))  # rows, columns: what WGMMA takes without narrow instructions


Suggest = Callable[[Case], Iterator[Idea]]


def advise(case: Case, examples: Mapping[str, str] | None = None) -> tuple[Idea, ...]:
    """The ideas for a kernel, those for its bound first; none where its bound is not known.

    ``examples`` names the families that carry an idea out, by the idea's tag.
    """
    bound = case.verdict.bound
    if bound is None:
        return ()
    found: dict[str, Idea] = {}
    for suggest in (spills, *TABLE[bound], coalescing, bank_conflicts, waves):
        for idea in suggest(case):
            found.setdefault(idea.tag, idea)
    known = examples or {}
    return tuple(
        replace(each, what=f"{each.what}, as in {known[each.tag]}") if each.tag in known else each
        for each in list(found.values())[:MOST_IDEAS]
    )


def larger_tile(case: Case) -> Iterator[Idea]:
    """Double the columns or the rows: each tile reads its operands once, so bytes per flop fall."""
    tile = case.tile
    if tile is None:
        yield Idea("larger_tile", "a larger block_M or block_N", f"{_busiest(case)} and a tile reads each operand once")
        return
    rows, columns, depth = tile
    for new in ((rows, 2 * columns, depth), (2 * rows, columns, depth)):
        threads, config = case.computing_threads, {"block_M": new[0], "block_N": new[1]}
        if new[0] > 256 or new[1] > 256 or threads is None:
            continue
        if not case.holds_accumulators(new) and threads < 2 * WARP_GROUP:
            threads *= 2
            lever = "consumer_groups" if "consumer_groups" in case.config else "threads"
            config[lever] = threads // WARP_GROUP if lever == "consumer_groups" else threads
        stages = case.number("num_stages") or 1
        more_bytes = stages * (case.stage_bytes(new) - case.stage_bytes(tile))
        while stages > 2 and not case.holds(more_bytes):
            stages -= 1
            more_bytes = stages * case.stage_bytes(new) - (case.number("num_stages") or 1) * case.stage_bytes(tile)
            config["num_stages"] = stages
        if case.holds(more_bytes) and case.holds_accumulators(new, threads):
            saved = 1 - (1 / new[0] + 1 / new[1]) / (1 / rows + 1 / columns)
            yield Idea(
                "larger_tile",
                f"tiles of {new[0]}x{new[1]} instead of {rows}x{columns}",
                f"{_busiest(case)} and such tiles read {100 * saved:.0f}% fewer bytes per flop",
                f"{case.shared_after(more_bytes)}, {case.registers_after(new, threads)}",
                _changed(case, config),
            )
            return


def more_stages(case: Case) -> Iterator[Idea]:
    """Add whole stages to the ring or, where none fits, halve their depth."""
    tile, stages = case.tile, case.number("num_stages")
    if (case.figures.get("tensor_pct") or 0) >= SATURATED.value:
        return
    because = _wait(case)
    if tile is None or stages is None:
        yield Idea("more_stages", "more stages of T.Pipelined, so that loads run further ahead", because)
        return
    depth = tile[2]
    stage_bytes = case.stage_bytes(tile)
    free = case.free_bytes() or 0.0
    if (more := int(free // stage_bytes)) > 0:
        more = min(more, 2)
        yield Idea(
            "more_stages",
            f"{stages + more} stages instead of {stages}, so that loads run further ahead",
            because,
            case.shared_after(more * stage_bytes),
            {"num_stages": stages + more},
        )
    elif depth >= 64:
        halves = int((free + stages * stage_bytes) // (stage_bytes // 2))
        yield Idea(
            "finer_stages",
            f"{halves} stages of block_K {depth // 2} instead of {stages} of {depth}, so that a stage is free sooner",
            f"{because} and one more whole stage of {stage_bytes:,} bytes does not fit",
            case.shared_after(halves * (stage_bytes // 2) - stages * stage_bytes),
            {"block_K": depth // 2, "num_stages": halves},
        )


def prefetch(case: Case) -> Iterator[Idea]:
    """Let loads run ahead on their own."""
    if not case.figures.get("tma_pct") and has_wgmma(case.gpu.arch):
        yield Idea(
            "warp_specialized",
            "a TMA producer with WGMMA consumers, so that loads run ahead",
            f"{_wait(case)} and no TMA instruction was issued",
        )
    elif case.figures.is_warp_specialised and "consumer_groups" not in case.config:
        yield Idea(
            "warp_specialized",
            "warp specialization by hand",
            f"{_wait(case)} and T.gemm drains its WGMMA in every k step",
        )
    in_flight = case.number("wgmma_in_flight")
    if in_flight is not None:
        tag, what = "one_in_flight", "one WGMMA batch in flight over the k steps (wgmma_in_flight=1)"
        if in_flight:
            tag = "drain_each_step"
            what = "each WGMMA batch drained in its own step (wgmma_in_flight=0), which frees its stage at once"
        because = f"the tensor pipe is busy {case.figures.get('tensor_pct') or 0:.0f}% of the time"
        yield Idea(tag, what, because, config={"wgmma_in_flight": 1 - in_flight})


def tensor_cores(case: Case) -> Iterator[Idea]:
    tensor = case.figures.get("tensor_pct")
    if tensor is None or case.problem.input == "float32":
        return
    if tensor < 1:
        yield Idea(
            "tensor_cores",
            f"T.gemm on {case.problem.input} tiles in shared memory, so that tensor cores multiply",
            f"the tensor pipe is at {tensor:.0f}% and {_busiest(case)}",
        )
    elif has_wgmma(case.gpu.arch) and not case.figures.uses_wgmma:
        yield Idea(
            "wgmma",
            "WGMMA instead of mma.sync: whole warp groups and block_M a multiple of 64",
            f"no WGMMA instruction was issued and the tensor pipe is at {tensor:.0f}%",
        )


def more_threads(case: Case) -> Iterator[Idea]:
    """Let two warp groups share the tile: one multiplies while the other does not."""
    tile, threads = case.tile, case.computing_threads
    if tile is None or threads is None or threads > WARP_GROUP or tile[0] < 128:
        return
    lever = "consumer_groups" if "consumer_groups" in case.config else "threads"
    yield Idea(
        "two_consumer_groups",
        "two warp groups that share the tile, so that one multiplies while the other waits",
        f"the tensor pipe is busy {case.figures.get('tensor_pct') or 0:.0f}% of the time with one",
        case.registers_after(tile, 2 * threads),
        {lever: 2 if lever == "consumer_groups" else 2 * threads},
    )


def less_overhead(case: Case) -> Iterator[Idea]:
    """Save the start, the end and the epilogue of each tile, which a saturated pipe leaves."""
    tensor, active = case.figures.get("tensor_pct"), case.figures.active_pct
    if tensor is None or active is None:
        return
    if case.config.get("persistent") is False:
        yield Idea(
            "persistent",
            "a persistent grid: its producer loads the next tile while the consumers store the last one",
            f"the tensor pipe is busy {tensor:.0f}% of the time and SMs are active {active:.0f}%",
            config={"persistent": True},
        )
    elif (case.figures.get("waves") or 0) > 1 and case.figures.uses_wgmma:
        yield Idea(
            "persistent",
            "resident blocks that walk the tiles",
            f"{case.figures.get('waves'):.3g} waves of blocks each pay their own start and epilogue, with the tensor "
            f"pipe busy {tensor:.0f}% of the time",
        )


def turns(case: Case) -> Iterator[Idea]:
    """Run one group's epilogue under the other's main loop, where the main loop is short."""
    tile, tensor = case.tile, case.figures.get("tensor_pct")
    if tile is None or tensor is None or case.dims is None or case.config.get("persistent") is not True:
        return
    steps = -(-case.dims[2] // tile[2])
    if case.number("consumer_groups") == 2 and steps <= SHORT_LOOP:
        yield Idea(
            "ping_pong",
            "consumer groups that take tiles in turns, so that one stores while the other multiplies",
            f"a tile has only {steps} steps of K before its epilogue, and the tensor pipe is busy {tensor:.0f}% of the "
            "time",
        )


def locality(case: Case) -> Iterator[Idea]:
    """Order tiles so that those computed at the same time share operands in L2."""
    traffic, hit = case.figures.dram_bytes, case.figures.get("l2_hit_pct")
    if traffic is None or hit is None or traffic < TRAFFIC * case.problem.bytes:
        return
    because = (
        f"{traffic / 1e6:.4g} MB moved where {case.problem.bytes / 1e6:.4g} MB must, and L2 hits are at {hit:.0f}%"
    )
    for lever, words in (("panel", "T.use_swizzle over panels of"), ("group_M", "raster groups of")):
        value = case.number(lever)
        if value is not None:
            new = 8 if value == 0 else 2 * value if value < 16 else value // 2
            yield Idea("l2_locality", f"{words} {new} tiles instead of {value}", because, config={lever: new})
            return
    yield Idea("l2_locality", "T.use_swizzle over the grid, with other panel sizes", because)


def inputs_stay(case: Case) -> Iterator[Idea]:
    """Let the L2 give up outputs before inputs; ``docs/results/regimes-h200.md`` has what that gained."""
    written, traffic = case.figures.get("dram_write_bytes"), case.figures.dram_bytes
    if written and traffic and written >= WRITTEN * traffic:
        yield Idea(
            "inputs_stay",
            "loads with the L2 policy evict_last, so that outputs leave the L2 first",
            f"{100 * written / traffic:.0f}% of {traffic / 1e6:.4g} MB from and to DRAM are writes, and at a half "
            "that gained 1.6 to 2.9% on an H200",
        )


def multicast(case: Case) -> Iterator[Idea]:
    """Let two blocks that share an operand load it once."""
    level = case.figures.get("l2_pct")
    rows, columns = case.number("cluster_M"), case.number("cluster_N")
    if level is None or rows != 1 or columns != 1 or case.dims is None:
        return
    lever = "cluster_M" if case.dims[0] >= case.dims[1] else "cluster_N"
    yield Idea(
        "cluster_multicast",
        f"clusters of two blocks ({lever}=2), for which TMA loads one operand once",
        f"L2 is at {level:.0f}% of its peak and a multicast halves the reads of that operand",
        config={lever: 2},
    )


def smaller_tile(case: Case) -> Iterator[Idea]:
    """Make more blocks, where the grid leaves SMs idle."""
    tile = case.tile
    sms = int(case.figures.get("sms") or case.gpu.sms or 0)
    if tile is None or case.dims is None or not sms:
        return
    tiles = case.tiles(tile)
    if tiles < sms:
        yield Idea(
            "split_k",
            "K cut over several blocks, so that every SM has work",
            f"{tiles} tiles of {tile[0]}x{tile[1]} are fewer than {sms} SMs",
        )
    yield from _fuller(case, "smaller_tile", lambda new: new[0] * new[1] <= tile[0] * tile[1])


def one_wave(case: Case) -> Iterator[Idea]:
    """Shorten what comes before the first and after the last k step."""
    active = case.figures.active_pct
    if active is None or active >= FULL.value:
        return
    because = f"SMs hold a warp in {active:.0f}% of {case.figures.duration_us:.4g} µs, and the rest is start and end"
    if case.figures.is_warp_specialised and not case.config.get("dependent_launch"):
        yield Idea(
            "dependent_launch",
            "programmatic dependent launch, so that a launch sets up while the one before it ends",
            because,
        )
    yield Idea(
        "shorter_prologue",
        "less before the first load and after the last k step: fewer barriers, a direct epilogue, one tile per block",
        because,
        config={"persistent": False} if case.config.get("persistent") is True else {},
    )


def occupancy(case: Case) -> Iterator[Idea]:
    """Fit more blocks on an SM, where schedulers lack ready warps; not for a warp-specialised kernel."""
    warps = case.figures.get("warps_pct")
    if case.figures.is_warp_specialised or warps is None or warps >= BUSY.value:
        return
    by_registers = case.figures.get("blocks_by_registers") or 0
    by_shared = case.figures.get("blocks_by_shared") or 0
    scarce = "registers" if by_registers <= by_shared else "shared memory"
    yield Idea(
        "more_blocks_per_sm",
        f"a block that takes less of the {scarce}, so that more of them fit an SM",
        f"{warps:.0f}% of the warps that fit an SM are resident, and {min(by_registers, by_shared):.0f} blocks fit",
    )


# Whatever the bound


def spills(case: Case) -> Iterator[Idea]:
    stores, loads = case.figures.get("local_stores") or 0, case.figures.get("local_loads") or 0
    if stores + loads > 0:
        yield Idea(
            "no_spills",
            "fewer accumulators per thread: more threads on the tile, or a smaller tile",
            f"{stores:,.0f} stores and {loads:,.0f} loads of spilled registers were executed at "
            f"{case.figures.get('registers') or 0:.0f} registers a thread",
        )


def coalescing(case: Case) -> Iterator[Idea]:
    """Stores from fragments write parts of sectors; TMA writes rows."""
    excess, sectors = case.figures.get("excess_sectors"), case.figures.get("global_sectors")
    if not excess or not sectors or excess / sectors < CONFLICTS:
        return
    because = f"{100 * excess / sectors:.0f}% of the sectors that global accesses request are not needed"
    tile = case.tile
    if case.config.get("epilogue") == "direct" and tile is not None:
        yield Idea(
            "tma_store",
            "the result through shared memory and a TMA store, which writes whole rows",
            because,
            "the store can take the space of the stages",
            {"epilogue": "tma"},
        )
    else:
        yield Idea(
            "coalesced", "neighbouring threads on neighbouring addresses, or a store through shared memory", because
        )


def bank_conflicts(case: Case) -> Iterator[Idea]:
    conflicts, passes = case.figures.get("bank_conflicts"), case.figures.get("shared_wavefronts")
    if conflicts and passes and conflicts / passes >= CONFLICTS:
        yield Idea(
            "swizzled_layout",
            "a swizzled layout of the tile in shared memory (T.annotate_layout), or rows padded by 16 bytes",
            f"{100 * conflicts / passes:.0f}% of the passes through shared memory are lost to bank conflicts",
        )


def wide_wgmma(case: Case) -> Iterator[Idea]:
    """Widen the WGMMA: each one of 64 rows reads its columns of B again."""
    shared, tile = case.figures.get("shared_pct"), case.tile
    if shared is None or tile is None or tile[1] >= 256 or not case.figures.uses_wgmma:
        return
    yield Idea(
        "wide_wgmma",
        f"block_N above {tile[1]}, for wider WGMMA instructions",
        f"shared memory is at {shared:.0f}% of its peak and a WGMMA of 64x{tile[1]} reads {64 + tile[1]} rows for "
        f"{64 * tile[1]:,} products",
    )


def waves(case: Case) -> Iterator[Idea]:
    """Choose tiles that fill the last wave."""
    tile = case.tile
    if tile is not None:
        yield from _fuller(case, "full_waves", lambda new: new[0] * new[1] >= tile[0] * tile[1] // 2)


def _fuller(case: Case, tag: str, fits: Callable[[tuple[int, int, int]], bool]) -> Iterator[Idea]:
    tile = case.tile
    if tile is None or case.dims is None or (fill := case.wave_fill(tile)) >= GOOD_FILL:
        return
    others = [
        new
        for rows in TILE_SIZES[0]
        for columns in TILE_SIZES[1]
        if (new := (rows, columns, tile[2])) != tile
        and fits(new)
        and rows % ((case.number("consumer_groups") or 1) * 64) == 0
        and case.holds_accumulators(new)
        and case.holds((case.number("num_stages") or 1) * (case.stage_bytes(new) - case.stage_bytes(tile)))
    ]
    best = max(others, key=lambda new: (round(case.wave_fill(new), 2), new[0] * new[1], new[1]), default=None)
    if best is None or case.wave_fill(best) < fill + NEAR.value / 100:
        return
    yield Idea(
        tag,
        f"tiles of {best[0]}x{best[1]}, {case.tiles(best)} of them",
        f"{case.tiles(tile)} tiles of {tile[0]}x{tile[1]} fill {100 * fill:.0f}% of their waves and these "
        f"{100 * case.wave_fill(best):.0f}%",
        case.registers_after(best),
        _changed(case, {"block_M": best[0], "block_N": best[1]}),
    )


def _changed(case: Case, config: dict[str, int]) -> dict[str, int | str | bool]:
    return {name: value for name, value in config.items() if case.config.get(name) != value}


def _busiest(case: Case) -> str:
    """The unit that limits, with its share; for a bound without one, the DRAM."""
    if case.verdict.bound is Bound.POWER:
        return f"bytes spend energy at the power limit, L2 is at {case.figures.get('l2_pct') or 0:.0f}% of its peak"
    names = {name: figure for figure, name in (COMPUTE_UNITS | MEMORY_LEVELS).items()}
    limiter = case.verdict.limiter or ""
    value = case.figures.get(names[limiter]) if limiter in names else None
    if value is None:
        return "no unit is near its peak"
    word = "saturated" if value >= SATURATED.value else "busiest"
    return f"{limiter} is {word} at {value:.0f}% of its peak"


def _wait(case: Case) -> str:
    if not case.figures.stalls:
        return "no unit is near its peak"
    reason, share = case.figures.stalls[0]
    return f"{share:.0f}% of all waiting is {reason}"


# What to try for each bound, in this order.
TABLE: Final[dict[Bound, tuple[Suggest, ...]]] = {
    Bound.MEMORY: (larger_tile, locality, inputs_stay, wide_wgmma, multicast, more_stages),
    Bound.COMPUTE: (tensor_cores, more_threads, less_overhead, turns, larger_tile, prefetch, multicast, more_stages),
    Bound.LATENCY: (tensor_cores, more_stages, prefetch, more_threads, occupancy, less_overhead, turns, larger_tile),
    Bound.LAUNCH: (smaller_tile, one_wave, more_stages),
    Bound.POWER: (tensor_cores, larger_tile, wide_wgmma, multicast, locality, less_overhead),
    Bound.MIXED: (tensor_cores, larger_tile, wide_wgmma, locality, less_overhead, turns, prefetch),
}
