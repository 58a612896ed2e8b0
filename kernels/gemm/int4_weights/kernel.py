"""GEMM with 4-bit weights: they are unpacked into the registers from which WGMMA takes its left operand."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import tilelang.language as T
from tilelang.layout import make_full_bank_swizzled_layout, make_half_bank_swizzled_layout

from harness.iteration import Problem, Program
from kernels.gemm.roles import program_of
from kernels.hopper import GROUP, require_shared, run_consumers, wait_for_kernel_before
from kernels.operands import ceildiv, require

STEP = 128  # of K: what has one scale
WARP = 32
WARPS = GROUP // WARP
WIDE_SCALES = 64  # of a row: as wide as a swizzle
REORDERED_ROWS = 16  # of X
ROWS = 64  # of W in a block: the M of a WGMMA
REDUCE_BARRIER = 8  # named barriers from here on; TileLang takes them from 0

FUNCTIONS = r"""
// The low nibbles of both halves of a word, as numbers of bfloat16.
static __device__ __forceinline__ unsigned weights_of_halves(unsigned pair) {
  asm("lop3.b32 %0, %0, 0x000f000f, 0x43004300, 0xea;" : "+r"(pair));  // bfloat16: 128 + nibble, exactly
  asm("sub.rn.bf16x2 %0, %0, %1;" : "+r"(pair) : "r"(0x43084308u));    // - 136
  return pair;
}
// Of the left operand of a WGMMA of 16-bit inputs a thread has rows r and r + 8, where r = lane / 4. Of every eight
// columns it has the pair lane % 4, which is one byte of packed weights. Its quad reads the same 16 bytes.
static __device__ __forceinline__ unsigned weights_of_byte(unsigned word, unsigned selector) {
  return weights_of_halves(__byte_perm(word, word >> 4, selector));  // the byte, and two above the byte's high nibble
}
// Swizzled, a row of 64 bytes has its part p of 16 bytes where part p ^ row / 2 % 4 would be.
template <bool swizzled>
static __device__ __forceinline__ void unpack(const void *tile, void *operand) {
  unsigned lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane / 4;
  unsigned selector = lane % 4 | (lane % 4 + 4) << 8, turn = swizzled ? row / 2 % 4 : 0;
  unsigned *registers = static_cast<unsigned *>(operand);
  const uint4 *rows = static_cast<const uint4 *>(tile);
#pragma unroll
  for (int part = 0; part < 4; ++part)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint4 words = rows[(row + 8 * half) * 4 + (part ^ turn)];
      registers[8 * part + half] = weights_of_byte(words.x, selector);
      registers[8 * part + half + 2] = weights_of_byte(words.y, selector);
      registers[8 * part + half + 4] = weights_of_byte(words.z, selector);
      registers[8 * part + half + 6] = weights_of_byte(words.w, selector);
    }
}
// Swizzled, a row of 64 scales has its part p of eight where part p ^ row % 8 would be.
template <bool swizzled>
static __device__ __forceinline__ void scale_rows(void *operand, const void *scales, int pitch) {
  unsigned row = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4, *registers = static_cast<unsigned *>(operand);
  const unsigned short *factors = static_cast<const unsigned short *>(scales) + row * pitch;
  if (swizzled) factors = reinterpret_cast<const unsigned short *>(reinterpret_cast<size_t>(factors) ^ row % 8 * 16);
  unsigned of_rows[2] = {factors[0] * 0x10001u, factors[8 * pitch] * 0x10001u};
#pragma unroll
  for (int i = 0; i < 32; ++i) asm("mul.rn.bf16x2 %0, %0, %1;" : "+r"(registers[i]) : "r"(of_rows[i % 2]));
}
// In another order of K a lane has 16 bytes of a row for itself: its quad's lane q has part q. Of word j a pair is
// weights i and i + 4. It is columns 2q and 2q + 1 of the eight that are number 4j + i of a step.
static __device__ __forceinline__ void unpack_own(const void *tile, void *operand) {
  unsigned row = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4, *registers = static_cast<unsigned *>(operand);
  const uint4 *parts = static_cast<const uint4 *>(tile);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    uint4 part = parts[(row + 8 * half) * 4 + threadIdx.x % 4];
    unsigned words[4] = {part.x, part.y, part.z, part.w};
#pragma unroll
    for (int eight = 0; eight < 16; ++eight)
      registers[2 * eight + half] = weights_of_halves(words[eight / 4] >> eight % 4 * 4);
  }
}
// Eight activations of row r are a part of 16 bytes. A step has 16 of them in two tiles, swizzled by 128 bytes; this is
// where a row of the n-th group of eight rows has one.
template <int rows>
static __device__ __forceinline__ unsigned place(int n, unsigned row, unsigned part) {
  int step = n / (rows / 8), first_row = n % (rows / 8) * 8;
  return (2 * step + part / 8) * 8 * rows + (first_row + row) * 8 + (part % 8 ^ row);
}
// One warp brings the activations of a stage into that order, in place. Part 4q + j of a row belongs to word j of lane
// q, and goes to parts 4j to 4j + 3. Eight lanes read 16 bytes each from different banks, and so they write.
template <int rows, int steps>
static __device__ __forceinline__ void reorder(void *activations) {
  unsigned lane = threadIdx.x % 32, row = lane / 2 % 4 * 2 + lane / 8 % 2, j = lane / 16 * 2 + lane % 2;
  uint4 *parts = static_cast<uint4 *>(activations);
  constexpr int groups = steps * rows / 8;
  unsigned pairs[groups][4][4];
#pragma unroll
  for (int n = 0; n < groups; ++n)
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      uint4 part = parts[place<rows>(n, row, 4 * q + j)];
      pairs[n][q][0] = part.x, pairs[n][q][1] = part.y, pairs[n][q][2] = part.z, pairs[n][q][3] = part.w;
    }
  __syncwarp();
#pragma unroll
  for (int n = 0; n < groups; ++n)
#pragma unroll
    for (int turn = 0; turn < 4; ++turn) {
      unsigned i = turn ^ j % 2, halves = i % 2 ? 0x7632 : 0x5410, made[4];
#pragma unroll
      for (int q = 0; q < 4; ++q) made[q] = __byte_perm(pairs[n][q][turn / 2], pairs[n][q][2 + turn / 2], halves);
      parts[place<rows>(n, row, 4 * j + i)] = make_uint4(made[0], made[1], made[2], made[3]);
    }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncwarp();
}
"""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """A problem's sizes and a block's. Raises ValueError for what cannot work."""

    M: int
    N: int
    K: int
    dtype: str
    block_M: int
    num_stages: int
    consumer_groups: int
    cluster: int
    steps_at_once: int
    scales_by_tma: bool
    swizzled: bool
    reordered: bool

    @classmethod
    def of(cls, problem: Problem, **levers: Any) -> Self:
        require(problem.operator == "int4linear", f"{problem}: operator '{problem.operator}' is not int4linear")
        M, N, K = problem.dims
        return cls(M=M, N=N, K=K, dtype=problem.input, **levers)

    def __post_init__(self) -> None:
        groups = self.consumer_groups
        require(self.dtype == "bfloat16", f"{self.dtype} inputs are not supported, only bfloat16")
        require(self.N % ROWS == 0, f"N={self.N} is not a multiple of {ROWS}, the rows of W of a block")
        require(self.block_M in (16, 32, 64, 128), f"block_M={self.block_M} is not 16, 32, 64 or 128")
        require(groups in (1, 2, 3, 4, 6), f"consumer_groups={groups} is not 1, 2, 3, 4 or 6")
        require(
            self.steps_at_once in (1, 2) and self.steps % self.steps_at_once == 0,
            f"steps_at_once={self.steps_at_once} is not 1 or 2 of the {self.steps} steps of K",
        )
        require(
            not self.reordered or self.block_M == REORDERED_ROWS,
            f"block_M={self.block_M}: only {REORDERED_ROWS} rows of X can be reordered",
        )
        require(self.num_loads >= groups, f"{self.num_loads} stages of K are not enough for {groups} consumer groups")
        require(self.num_stages >= 2, f"num_stages={self.num_stages}: the producer needs 2 stages to run ahead")
        require(
            self.num_stages % groups == 0,
            f"num_stages={self.num_stages} is not a multiple of consumer_groups={groups}; each stage belongs to one, "
            "as the parity of its barrier does not tell a load from the one before the last",
        )
        require(
            self.cluster in (1, 2, 4) and self.N // ROWS % self.cluster == 0,
            f"cluster={self.cluster} is not 1, 2 or 4 of the {self.N // ROWS} blocks along N",
        )
        # TMA takes rows in multiples of 16 bytes, and a swizzle is 128 bytes wide.
        for lever, asked, each in (("scales_by_tma", self.scales_by_tma, 8), ("swizzled", self.swizzled, WIDE_SCALES)):
            require(not asked or self.steps % each == 0, f"{lever} needs K in multiples of {each * STEP}, not {self.K}")
        scales = ROWS * self.steps * 2
        sums = (groups > 1) * ROWS * self.block_M * 4
        require_shared(self.num_tiles * (ROWS * STEP // 2 + self.block_M * STEP * 2) + scales + sums)

    @property
    def steps(self) -> int:
        return self.K // STEP

    @property
    def num_loads(self) -> int:
        """Stages that a block goes through."""
        return self.steps // self.steps_at_once

    @property
    def num_tiles(self) -> int:
        """Steps that the ring holds."""
        return self.num_stages * self.steps_at_once

    def place(self, k: Any, step: int) -> tuple[Any, Any]:
        """Of a step of the k-th stage: its tile in the ring, and its number in K."""
        return k % self.num_stages * self.steps_at_once + step, k * self.steps_at_once + step

    @property
    def threads(self) -> int:
        return GROUP * (self.consumer_groups + 1)

    def launch(self) -> Any:
        grid = (self.N // ROWS, ceildiv(self.M, self.block_M))
        if self.cluster == 1:
            return T.Kernel(*grid, threads=self.threads, prelude=FUNCTIONS)
        return T.ClusterKernel(*grid, threads=self.threads, cluster_dims=(self.cluster, 1, 1), prelude=FUNCTIONS)


@dataclass(frozen=True)
class Memory:
    """The stages with their barriers, all scales of a block's rows, and sums on their way to another group."""

    X: Any
    packed: Any
    scales: Any
    sums: Any
    scales_full: Any  # None where the threads load them
    full: Any
    reordered: Any  # None where X keeps its order
    empty: Any

    @property
    def ready(self) -> Any:
        """What a consumer waits for."""
        return self.full if self.reordered is None else self.reordered


@dataclass(frozen=True)
class UnpackingRegisters:
    """Of a consumer group: the totals; and of each step of a stage its weights, sums and scales."""

    weights: list[Any]
    partial: list[Any]
    total: Any
    scales: list[Any]


@T.macro
def allocate(sizes: Sizes) -> Memory:
    X = T.alloc_shared((sizes.num_tiles, sizes.block_M, STEP), sizes.dtype)
    packed = T.alloc_shared((sizes.num_tiles, ROWS, STEP // 2), "uint8")
    scales = T.alloc_shared((ROWS, sizes.steps), sizes.dtype)
    sums = T.alloc_shared((ROWS, sizes.block_M), "float32") if sizes.consumer_groups > 1 else None
    if sizes.swizzled:
        T.annotate_layout({scales: make_full_bank_swizzled_layout(scales)})
        if not sizes.reordered:
            T.annotate_layout({packed: make_half_bank_swizzled_layout(packed)})
    scales_full = T.alloc_barrier([1]) if sizes.scales_by_tma else None
    full = T.alloc_barrier([1] * sizes.num_stages)
    reordered = T.alloc_barrier([1] * sizes.num_stages) if sizes.reordered else None
    freed_by = [WARPS * sizes.cluster] * sizes.num_stages
    empty = T.alloc_cluster_barrier(freed_by) if sizes.cluster > 1 else T.alloc_barrier(freed_by)
    return Memory(X, packed, scales, sums, scales_full, full, reordered, empty)


@T.macro
def allocate_registers(sizes: Sizes) -> list[UnpackingRegisters]:
    shape = (ROWS, sizes.block_M)
    return [
        UnpackingRegisters(
            [T.alloc_fragment((ROWS, STEP), sizes.dtype) for _ in range(sizes.steps_at_once)],
            [T.alloc_fragment(shape, "float32") for _ in range(sizes.steps_at_once)],
            T.alloc_fragment(shape, "float32"),
            [T.alloc_fragment((ROWS,), "float32") for _ in range(sizes.steps_at_once)],
        )
        for _ in range(sizes.consumer_groups)
    ]


@T.macro
def load_step(sizes: Sizes, memory: Memory, X: Any, packed: Any, m0: Any, n0: Any, k: Any, step: int) -> None:
    """The weights of a step of a stage, and its activations, which one block loads for its cluster."""
    stage = k % sizes.num_stages
    tile, k0 = sizes.place(k, step)
    T.tma_copy(
        packed[n0 : n0 + ROWS, k0 * (STEP // 2) : (k0 + 1) * (STEP // 2)],
        memory.packed[tile, :, :],
        barrier=memory.full[stage],
        eviction_policy="evict_first",
    )
    T.tma_copy(
        X[m0 : m0 + sizes.block_M, k0 * STEP : (k0 + 1) * STEP],
        memory.X[tile, :, :],
        barrier=memory.full[stage],
        cluster_mask=(1 << sizes.cluster) - 1 if sizes.cluster > 1 else None,
        eviction_policy="evict_last",
    )


@T.macro
def load(sizes: Sizes, memory: Memory, X: Any, packed: Any, scales: Any, m0: Any, n0: Any) -> None:
    """The producer's part."""
    if sizes.scales_by_tma:
        T.tma_copy(scales[n0 : n0 + ROWS, :], memory.scales, barrier=memory.scales_full[0])
        if T.shuffle_elect(32):
            T.mbarrier_arrive(memory.scales_full[0])
    for k in T.serial(sizes.num_loads):
        stage = k % sizes.num_stages
        T.mbarrier_wait_parity(memory.empty[stage], ((k // sizes.num_stages) & 1) ^ 1)
        load_step(sizes, memory, X, packed, m0, n0, k, 0)
        if sizes.steps_at_once == 2:
            load_step(sizes, memory, X, packed, m0, n0, k, 1)
        if T.shuffle_elect(32):
            T.mbarrier_arrive(memory.full[stage])


@T.macro
def bring_into_order(sizes: Sizes, memory: Memory, warp: Any) -> None:
    """The part of the producer's other warps, which take the stages in turns."""
    helpers = WARPS - 1
    for turn in T.serial(ceildiv(sizes.num_loads - warp, helpers)):
        k = turn * helpers + warp
        stage = k % sizes.num_stages
        T.mbarrier_wait_parity(memory.full[stage], (k // sizes.num_stages) & 1)
        X = T.access_ptr(memory.X[stage * sizes.steps_at_once, 0, 0], "r")
        T.call_extern("handle", f"reorder<{sizes.block_M}, {sizes.steps_at_once}>", X)
        if T.shuffle_elect(WARP):
            T.mbarrier_arrive(memory.reordered[stage])


@T.macro
def free(sizes: Sizes, memory: Memory, stage: Any, thread: Any) -> None:
    """Each warp says that it has read its packed weights, in every block of the cluster."""
    if sizes.cluster == 1:
        if T.shuffle_elect(WARP):
            T.mbarrier_arrive(memory.empty[stage])
    else:
        if thread % WARP < sizes.cluster:
            T.mbarrier_arrive(memory.empty[stage], thread % WARP)


@T.macro
def add_up(sizes: Sizes, memory: Memory, registers: list[UnpackingRegisters], group: int) -> None:
    """From the last group on, each hands its totals to the one before, and group 0 has all."""
    totals = registers[group].total
    if group < sizes.consumer_groups - 1:
        T.sync_threads(REDUCE_BARRIER + group, 2 * GROUP)
        for i, j in T.Parallel(ROWS, sizes.block_M):
            totals[i, j] += memory.sums[i, j]
    if group > 0:
        T.copy(totals, memory.sums)
        T.sync_threads(REDUCE_BARRIER + group - 1, 2 * GROUP)


def int4_weights(
    problem: Problem,
    *,
    block_M: int,
    num_stages: int,
    consumer_groups: int = 1,
    steps_at_once: int = 1,
    scaled: str = "sums",
    cluster: int = 1,
    scales_by_tma: bool = False,
    swizzled: bool = False,
    reordered: bool = False,
    dependent_launch: bool = False,
) -> Program:
    """C[M,N] = X[M,K] · W[N,K]ᵀ of packed 4-bit weights with a scale for each 128 of a row, for few rows of X.

    A block has 64 rows of W and computes Cᵀ = W · Xᵀ, as WGMMA takes its left operand from registers. There a pair of
    weights is one byte: a permutation, a logical operation and a subtraction make two numbers of bfloat16 of it. So
    wide weights exist in registers alone. TMA loads the packed ones far ahead, as their bandwidth is the limit.

    Levers:

    - ``block_M``: rows of X that a block multiplies at once: the N of its WGMMA.
    - ``num_stages`` of the ring; a multiple of ``consumer_groups``.
    - ``consumer_groups``: they take the stages in turns, and one unpacks while another multiplies. At the end they
      add up.
    - ``steps_at_once``: a stage has so many steps of 128 of K, and a group unpacks one while the other multiplies.
    - ``scaled``: "weights", before they are multiplied and rounded to bfloat16 again, or "sums", in float32 after each
      step. A step has 64 x 128 weights and 64 x block_M sums.
    - ``cluster``: so many blocks along N share one load of X.
    - ``scales_by_tma``: TMA loads the scales too, and weights need not wait for them. Else all threads load them first,
      and TileLang puts a fence into each step, since they store to shared memory.
    - ``swizzled``: rows of packed weights and of scales that a warp reads together share no banks.
    - ``reordered``: K has another order, in which each lane unpacks 16 bytes of its own. Else a quad reads the same 16
      bytes, and each of its lanes takes one byte of each word. Warps that idle beside the producer bring X into that
      order, in shared memory. For 16 rows of X, as they reorder all of it for each block.
    - ``dependent_launch``: as in ``warp_specialized``.

    Limits: sm_90a; bf16; N in multiples of 64. Each block along N reads all of X.
    """
    require(scaled in ("sums", "weights"), f"scaled='{scaled}' is not 'sums' or 'weights'")
    sizes = Sizes.of(
        problem,
        block_M=block_M,
        num_stages=num_stages,
        consumer_groups=consumer_groups,
        steps_at_once=steps_at_once,
        cluster=cluster,
        scales_by_tma=scales_by_tma,
        swizzled=swizzled,
        reordered=reordered,
    )
    steps, groups = sizes.steps, consumer_groups

    @T.macro
    def issue(memory: Memory, own: UnpackingRegisters, k: Any, step: int) -> None:
        """Unpack a step of a stage, and start its product."""
        tile, k0 = sizes.place(k, step)
        weights = own.weights[step]
        # To TileLang an address may be stored to, so a fence would follow; threads that store scales need one anyway.
        pointer = partial(T.access_ptr, access_type="r") if scales_by_tma else T.address_of
        form = f"<{str(swizzled).lower()}>"
        unpack = "unpack_own" if reordered else f"unpack{form}"
        T.call_extern("handle", unpack, pointer(memory.packed[tile, 0, 0]), weights.data)
        if scaled == "weights":
            pitch = WIDE_SCALES if swizzled else steps
            T.call_extern("handle", f"scale_rows{form}", weights.data, pointer(memory.scales[0, k0]), pitch)
        T.wgmma_gemm(
            weights,
            memory.X[tile, :, :],
            own.partial[step] if scaled == "sums" else own.total,
            transpose_B=True,
            clear_accum=(scaled == "sums"),
        )
        if scaled == "sums":
            for i in T.Parallel(ROWS):
                own.scales[step][i] = memory.scales[i, k0]

    @T.macro
    def finish(own: UnpackingRegisters, step: int) -> None:
        """Add a step's product to the totals."""
        if scaled == "sums":
            T.warpgroup_fence_operand(own.partial[step], num_regs=ROWS * block_M // GROUP)
            for i, j in T.Parallel(ROWS, block_M):
                own.total[i, j] += own.partial[step][i, j] * own.scales[step][i]
        else:
            T.warpgroup_fence_operand(own.total, num_regs=ROWS * block_M // GROUP)

    @T.macro
    def multiply(memory: Memory, own: UnpackingRegisters, k: Any, thread: Any) -> None:
        """A stage's product: one step is unpacked while the one before it multiplies."""
        stage = k % num_stages
        T.mbarrier_wait_parity(memory.ready[stage], (k // num_stages) & 1)
        issue(memory, own, k, 0)
        if steps_at_once == 2:
            issue(memory, own, k, 1)
            T.wait_wgmma(1)
            finish(own, 0)
        T.wait_wgmma(0)
        free(sizes, memory, stage, thread)
        finish(own, steps_at_once - 1)

    @T.macro
    def consume(
        C: Any, memory: Memory, registers: list[UnpackingRegisters], m0: Any, n0: Any, thread: Any, group: int
    ) -> None:
        T.clear(registers[group].total)
        if scales_by_tma:
            T.mbarrier_wait_parity(memory.scales_full[0], 0)
        for turn in T.serial(ceildiv(sizes.num_loads - group, groups)):
            multiply(memory, registers[group], turn * groups + group, thread)
        if groups > 1:
            add_up(sizes, memory, registers, group)
        if group == 0:
            for i, j in T.Parallel(ROWS, block_M):
                if m0 + j < sizes.M:
                    C[m0 + j, n0 + i] = registers[0].total[i, j]

    @T.prim_func
    def main(
        X: T.Tensor((sizes.M, sizes.K), sizes.dtype),
        packed: T.Tensor((sizes.N, sizes.K // 2), "uint8"),
        scales: T.Tensor((sizes.N, steps), sizes.dtype),
        C: T.Tensor((sizes.M, sizes.N), problem.output),
    ):
        with sizes.launch() as (block_N, row):
            memory = allocate(sizes)
            registers = allocate_registers(sizes)
            thread = T.get_thread_binding()
            m0, n0 = row * block_M, block_N * ROWS
            if cluster > 1 or dependent_launch:
                wait_for_kernel_before(dependent_launch)
            if not scales_by_tma:
                for i, k in T.Parallel(ROWS, steps):
                    memory.scales[i, k] = scales[n0 + i, k]
                T.sync_threads()
            if thread < GROUP:
                if thread < WARP:
                    load(sizes, memory, X, packed, scales, m0, n0)
                else:
                    if reordered:
                        bring_into_order(sizes, memory, thread // WARP - 1)
            else:
                run_consumers(groups, None, thread, partial(consume, C, memory, registers, m0, n0, thread), 0)
            if cluster > 1:
                T.cluster_sync()  # no block may leave while a peer still writes to it

    return program_of(main)
