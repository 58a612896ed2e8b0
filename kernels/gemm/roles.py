"""Warp specialization: the geometry of a block, and the roles of its warp groups.

Warp group 0 is the producer: one of its warps issues TMA loads into a ring of stages. Every further warp group is a
consumer: it runs WGMMA on its block_M / consumer_groups rows of every tile. In turns it takes all rows of every
consumer_groups-th tile instead. The two sides meet only at the ring's barriers. So the producer runs ahead into the
next tile while the consumers store the last one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tilelang.language as T

from harness.iteration import Program, Workspace
from kernels.gemm.operands import TensorCoreOperands
from kernels.hopper import GROUP, require_shared, run_consumers, wait_for_kernel_before
from kernels.operands import ceildiv, require

# Registers per thread after reallocation (producer, consumer), by consumer groups. One group needs none.
REGISTERS: dict[int, tuple[int, int] | None] = {1: None, 2: (40, 232), 3: (24, 160)}


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Geometry of a warp-specialised block. Raises ValueError for arguments that cannot work."""

    operands: TensorCoreOperands
    block_M: int
    block_N: int
    block_K: int
    num_stages: int
    consumer_groups: int
    cluster_M: int = 1
    cluster_N: int = 1
    epilogue_N: int  # columns of one epilogue buffer
    epilogue_buffers: int  # per consumer group; 0: registers to global memory
    wgmma_in_flight: int
    turns: bool = False  # a consumer group owns a whole tile, and the groups take the tiles in turns
    split: int = 1  # blocks of a cluster that share a tile, each with every split-th step of K
    stagger: int = 0  # k steps by which a tile's loads begin later in K than those of the tile before, and wrap around
    dependent_launch: bool = False  # blocks start where the kernel before leaves room, and wait for its end
    registers: tuple[int, int] | None = None  # None: by consumer_groups
    eviction: tuple[str | None, str | None, str | None] = (None, None, None)  # L2 hints for A, B and C

    def __post_init__(self) -> None:
        groups, sharers, operands = self.consumer_groups, self.sharers, self.operands
        operands.require_tma()
        require(groups in REGISTERS, f"consumer_groups={groups} is not 1, 2 or 3")
        require(
            self.block_M > 0 and self.block_M % (64 * sharers) == 0,
            f"block_M={self.block_M} is not a multiple of 64 rows for each of {sharers} consumer groups",
        )
        require(
            0 < self.block_N <= 256 and self.block_N % 16 == 0,
            f"block_N={self.block_N} is not a multiple of 16 up to 256; other widths make several narrow WGMMAs",
        )
        k_unit = 32 // operands.input_bytes
        require(
            self.block_K > 0 and self.block_K % k_unit == 0,
            f"block_K={self.block_K} is not a multiple of {k_unit}, the k of a WGMMA on {operands.input}",
        )
        require(self.num_stages >= 2, f"num_stages={self.num_stages}: the producer needs 2 stages to run ahead")
        require(
            1 in (self.cluster_M, self.cluster_N) and self.cluster in (1, 2, 4),
            f"cluster_M={self.cluster_M}, cluster_N={self.cluster_N}: a cluster is 1, 2 or 4 blocks in one direction",
        )
        require(self.stagger >= 0, f"stagger={self.stagger} is negative")
        require(self.wgmma_in_flight in (0, 1), f"wgmma_in_flight={self.wgmma_in_flight} is not 0 or 1")
        require(
            self.epilogue_N > 0 and self.block_N % self.epilogue_N == 0,
            f"epilogue_N={self.epilogue_N} does not divide block_N={self.block_N}",
        )
        require(
            self.block_N // 2 + 32 <= self.launch_registers,
            f"block_N={self.block_N}: one WGMMA of that width needs {self.block_N // 2 + 32} registers; ptxas has "
            f"{self.launch_registers} with {groups} consumer groups",
        )
        limit = self.consumer_registers or self.launch_registers
        require(
            self.accumulator_registers + 32 <= limit,
            f"{self.rows} x {self.block_N} accumulators take {self.accumulator_registers} registers of a thread; "
            f"with {groups} consumer groups {limit - 32} are free",
        )
        if self.registers is not None:
            producer, consumer = self.registers
            pool = self.launch_registers * (groups + 1)
            require(
                all(24 <= count <= 256 and count % 8 == 0 for count in self.registers)
                and producer + groups * consumer <= pool,
                f"registers={self.registers}: multiples of 8 from 24, producer + {groups} x consumer at most {pool}",
            )
        require_shared(self.shared_bytes)

    @property
    def sharers(self) -> int:
        """Consumer groups that share a tile, and so its stages."""
        return 1 if self.turns else self.consumer_groups

    @property
    def rows(self) -> int:
        """Rows of a tile that one consumer group owns."""
        return self.block_M // self.sharers

    def first_row(self, group: int) -> int:
        """Which row of its tile a consumer group starts at."""
        return group % self.sharers * self.rows

    @property
    def multicast(self) -> int:
        """Blocks that a load of A or B goes to."""
        return self.cluster_M * self.cluster_N

    @property
    def cluster(self) -> int:
        return self.multicast * self.split

    @property
    def threads(self) -> int:
        return GROUP * (self.consumer_groups + 1)

    @property
    def launch_registers(self) -> int:
        """Registers of a thread before reallocation, when one block takes the whole SM."""
        return min(255, 65536 // self.threads // 8 * 8)

    @property
    def reallocation(self) -> tuple[int, int] | None:
        """Registers of a producer's and of a consumer's thread; None where both keep what the launch gave."""
        return self.registers or REGISTERS[self.consumer_groups]

    @property
    def consumer_registers(self) -> int | None:
        """Registers that a consumer's thread takes; None where it keeps what it has."""
        return self.reallocation[1] if self.reallocation else None

    @property
    def k_steps(self) -> int:
        """Steps of K that a block does for a tile; loads beyond K are zeros."""
        return ceildiv(ceildiv(self.operands.K, self.block_K), self.split)

    def k_start(self, tile: Any, k: Any, rank: Any) -> Any:
        """Where in K the k-th step of a block for a tile starts."""
        if self.stagger:
            k = (k + tile * self.stagger) % self.k_steps
        return (k * self.split + rank % self.split) * self.block_K

    @property
    def share(self) -> int:
        """Columns of a tile that one block of a split stores."""
        return self.block_N // self.split

    @property
    def accumulator_registers(self) -> int:
        return self.rows * self.block_N // GROUP

    @property
    def buffers(self) -> int:
        return min(self.epilogue_buffers, self.block_N // self.epilogue_N)

    @property
    def shared_bytes(self) -> int:
        stage = (self.block_M + self.block_N) * self.block_K * self.operands.input_bytes
        store = self.rows * self.epilogue_N * self.operands.output_bytes
        partials = (self.split > 1) * 2 * self.block_M * (self.block_N - self.share) * 4
        return self.num_stages * stage + self.consumer_groups * self.buffers * store + partials

    @property
    def cluster_tiles(self) -> tuple[Any, int]:
        """Rows and columns of C in units of what a cluster computes at once."""
        tiles_M, tiles_N = ceildiv(self.operands.M, self.block_M), ceildiv(self.operands.N, self.block_N)
        return ceildiv(tiles_M, self.cluster_M), ceildiv(tiles_N, self.cluster_N)

    def origin(self, tile_M: Any, tile_N: Any, rank: Any) -> tuple[Any, Any]:
        """First row and column of C that block ``rank`` of a cluster computes."""
        if self.split > 1:
            return tile_M * self.block_M, tile_N * self.block_N
        m0 = (tile_M * self.cluster_M + rank % self.cluster_M) * self.block_M
        n0 = (tile_N * self.cluster_N + rank // self.cluster_M) * self.block_N
        return m0, n0

    def launch(self, clusters: int, **options: Any) -> Any:
        """The grid; a block's index divided by the cluster's size is the cluster's, the remainder its rank."""
        if self.cluster == 1:
            return T.Kernel(clusters, threads=self.threads, **options)
        dims = (self.cluster, 1, 1)
        return T.ClusterKernel(clusters * self.cluster, threads=self.threads, cluster_dims=dims, **options)


def program_of(main: Any, workspaces: tuple[Workspace, ...] = (), dynamic: tuple[str, ...] = ()) -> Program:
    """Warp groups run at their own pace, so no buffer may take the space of one that stands elsewhere in the text."""
    return Program(main, pass_configs={"tl.disable_shared_memory_reuse": True}, workspaces=workspaces, dynamic=dynamic)


@T.macro
def run_roles(roles: Roles, thread: Any, produce: Callable[[], None], consume: Callable[[int], None]) -> None:
    """Send warp group 0 to ``produce`` and every other one to ``consume(group)``."""
    if roles.cluster > 1 or roles.dependent_launch:
        wait_for_kernel_before(roles.dependent_launch)
    if thread < GROUP:
        if roles.reallocation is not None:
            T.set_max_nreg(roles.reallocation[0], 0)
        if thread < 32:
            produce()
    else:
        run_consumers(roles.consumer_groups, roles.consumer_registers, thread, consume, 0)
    if roles.cluster > 1:
        T.cluster_sync()  # no block may leave while a peer still writes to it
