"""The figures that a profile reads from a report: one table of names, metrics and units."""

from dataclasses import dataclass
from typing import Final

from harness.errors import InfrastructureError
from harness.extras.profile.report import KernelReport
from harness.records.profiles import Metric


@dataclass(frozen=True, slots=True)
class Column:
    """The metric of ncu behind a figure, its base unit, and its meaning."""

    metric: str
    unit: str
    tells: str


_SHARE: Final = ".avg.pct_of_peak_sustained_elapsed"
_ACTIVE: Final = ".avg.pct_of_peak_sustained_active"
_STALL: Final = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"

FIGURES: Final = {
    "duration_s": Column("gpu__time_duration.sum", "s", "time of the launch"),
    "clock_hz": Column("gpc__cycles_elapsed.max.per_second", "hz", "SM clock during the launch"),
    "sm_pct": Column(f"sm__throughput{_SHARE}", "%", "busiest unit of the SMs, of its peak"),
    "tensor_pct": Column(f"sm__pipe_tensor_cycles_active{_SHARE}", "%", "tensor pipe, WGMMA included"),
    "fma_pct": Column(f"sm__pipe_fma_cycles_active{_SHARE}", "%", "FMA pipe"),
    "alu_pct": Column(f"sm__pipe_alu_cycles_active{_SHARE}", "%", "ALU pipe"),
    "issue_pct": Column(f"smsp__issue_active{_ACTIVE}", "%", "issue slots, while SMs are active"),
    "wgmma_pct": Column(f"sm__inst_executed_pipe_tensor_op_gmma{_ACTIVE}", "%", "whether WGMMA is used"),
    "tma_pct": Column(f"sm__inst_executed_pipe_tma{_ACTIVE}", "%", "whether TMA is used"),
    "dram_pct": Column(f"gpu__dram_throughput{_SHARE}", "%", "DRAM, of its peak"),
    "dram_read_bytes": Column("dram__bytes_read.sum", "byte", "read from DRAM"),
    "dram_write_bytes": Column("dram__bytes_write.sum", "byte", "written to DRAM"),
    "l2_pct": Column(f"lts__throughput{_SHARE}", "%", "L2, of its peak"),
    "l2_hit_pct": Column("lts__t_sector_hit_rate.pct", "%", "sectors found in L2"),
    "shared_pct": Column(f"l1tex__data_pipe_lsu_wavefronts{_SHARE}", "%", "shared memory and L1, of their peak"),
    "shared_wavefronts": Column("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", "", "passes through shared memory"),
    "bank_conflicts": Column("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", "", "passes lost to bank conflicts"),
    "global_sectors": Column("memory_l2_theoretical_sectors_global", "sectors", "sectors that global accesses request"),
    "excess_sectors": Column(
        "derived__memory_l2_theoretical_sectors_global_excessive",
        "sector",
        "the part of these that coalescing would save",
    ),
    "local_loads": Column("smsp__sass_inst_executed_op_local_ld.sum", "inst", "spilled registers read back"),
    "local_stores": Column("smsp__sass_inst_executed_op_local_st.sum", "inst", "registers spilled"),
    "active_cycles": Column("sm__cycles_active.avg", "cycle", "cycles in which an average SM held a warp"),
    "elapsed_cycles": Column("sm__cycles_elapsed.avg", "cycle", "cycles of the launch"),
    "warps_pct": Column(f"sm__warps_active{_ACTIVE}", "%", "achieved occupancy"),
    "waves": Column("launch__waves_per_multiprocessor", "", "blocks of the grid over blocks that the GPU holds"),
    "blocks": Column("launch__grid_size", "", "blocks of the grid"),
    "threads": Column("launch__block_size", "", "threads of a block"),
    "sms": Column("launch__sm_count", "SM", "SMs"),
    "registers": Column("launch__registers_per_thread", "register/thread", "registers of a thread"),
    "registers_limit": Column("device__attribute_max_registers_per_thread", "", "most registers of a thread"),
    "registers_of_sm": Column("device__attribute_max_registers_per_multiprocessor", "", "registers of an SM"),
    "shared_dynamic_bytes": Column("launch__shared_mem_per_block_dynamic", "byte/block", "shared memory, dynamic"),
    "shared_static_bytes": Column("launch__shared_mem_per_block_static", "byte/block", "shared memory, static"),
    "shared_limit_bytes": Column(
        "device__attribute_max_shared_memory_per_block_optin", "", "most shared memory of a block"
    ),
    "blocks_by_registers": Column("launch__occupancy_limit_registers", "block", "blocks of an SM, by registers"),
    "blocks_by_shared": Column("launch__occupancy_limit_shared_mem", "block", "blocks of an SM, by shared memory"),
    "blocks_by_warps": Column("launch__occupancy_limit_warps", "block", "blocks of an SM, by warps"),
}

# Why a warp waits: ncu's name -> the meaning in a TileLang kernel.
STALLS: Final = {
    "barrier": "at a barrier of the block, or an mbarrier's spin",
    "long_scoreboard": "for global or local memory, or an mbarrier",
    "short_scoreboard": "for shared memory",
    "gmma": "for WGMMA",
    "math_pipe_throttle": "for a full arithmetic pipe",
    "mio_throttle": "for a full queue to shared memory",
    "lg_throttle": "for a full queue to global memory",
    "tex_throttle": "for a full queue to the texture unit",
    "wait": "for a fixed latency",
    "drain": "for its stores at the end",
    "membar": "for a memory fence",
    "no_instruction": "for instructions",
    "branch_resolving": "for a branch",
    "dispatch_stall": "for dispatch",
    "not_selected": "while another warp issued",
    "sleeping": "asleep",
    "imc_miss": "for a constant",
}


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one kernel, in base units. ``stalls`` are percentages of all waiting, largest first."""

    kernel: str
    values: dict[str, Metric]
    stalls: tuple[tuple[str, float], ...]

    def get(self, name: str) -> float | None:
        """A figure by name; None if the report lacks it."""
        if name not in FIGURES:
            raise KeyError(name)
        metric = self.values.get(name)
        return None if metric is None else metric.value

    @property
    def metrics(self) -> dict[str, Metric]:
        return {FIGURES[name].metric: metric for name, metric in self.values.items()}

    @property
    def uses_wgmma(self) -> bool:
        return bool(self.get("wgmma_pct"))

    @property
    def is_warp_specialised(self) -> bool:
        """Whether TMA feeds WGMMA: then few warps fill the tensor pipe."""
        return self.uses_wgmma and bool(self.get("tma_pct"))

    @property
    def duration_us(self) -> float:
        duration_s = self.get("duration_s")
        assert duration_s is not None
        return duration_s * 1e6

    @property
    def active_pct(self) -> float | None:
        """The percentage of the launch in which an average SM held a warp."""
        active, elapsed = self.get("active_cycles"), self.get("elapsed_cycles")
        return 100 * active / elapsed if active is not None and elapsed else None

    @property
    def dram_bytes(self) -> float | None:
        read, written = self.get("dram_read_bytes"), self.get("dram_write_bytes")
        return None if read is None or written is None else read + written

    @property
    def shared_bytes(self) -> float | None:
        dynamic, static = self.get("shared_dynamic_bytes"), self.get("shared_static_bytes")
        return None if dynamic is None else dynamic + (static or 0)


def figures(kernel: KernelReport) -> Figures:
    """Read one kernel's figures. Raises InfrastructureError if the duration is missing or a unit is wrong."""
    found = {name: kernel.metric(source.metric, source.unit) for name, source in FIGURES.items()}
    if found["duration_s"] is None:
        raise InfrastructureError(f"{kernel.where}: no {FIGURES['duration_s'].metric}: the counters were not collected")
    waits = {reason: kernel.metric(_STALL.format(reason)) for reason in STALLS}
    present = {reason: metric.value for reason, metric in waits.items() if metric is not None and metric.value > 0}
    total = sum(present.values())
    ordered = sorted(((reason, 100 * each / total) for reason, each in present.items()), key=lambda pair: -pair[1])
    return Figures(kernel.name, {name: metric for name, metric in found.items() if metric is not None}, tuple(ordered))
