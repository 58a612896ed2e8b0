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
ROWS = 64  # of W in a block: the M of a WGMMA
REDUCE_BARRIER = 8  # named barriers from here on; TileLang takes them from 0

FUNCTIONS = r"""
// Of the left operand of a WGMMA of 16-bit inputs a thread has rows r and r + 8, where r = lane / 4. Of every eight
// columns it has the pair lane % 4, which is one byte of packed weights. Its quad reads the same 16 bytes.
static __device__ __forceinline__ unsigned weights_of_byte(unsigned word, unsigned selector) {
  unsigned pair = __byte_perm(word, word >> 4, selector);  // the byte, and two above the byte's high nibble
  asm("lop3.b32 %0, %0, 0x000f000f, 0x43004300, 0xea;" : "+r"(pair));  // bfloat16: 128 + nibble, exactly
  asm("sub.rn.bf16x2 %0, %0, %1;" : "+r"(pair) : "r"(0x43084308u));    // - 136
  return pair;
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
    scales_by_tma: bool
    swizzled: bool

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
        require(self.steps >= groups, f"{self.steps} steps of K are not enough for {groups} consumer groups")
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
        require_shared(self.num_stages * (ROWS * STEP // 2 + self.block_M * STEP * 2) + scales + sums)

    @property
    def steps(self) -> int:
        return self.K // STEP

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
    empty: Any


@dataclass(frozen=True)
class UnpackingRegisters:
    """Of a consumer group: weights of a step, its sums, the totals, and the scales of the rows."""

    weights: Any
    partial: Any
    total: Any
    scales: Any


@T.macro
def allocate(sizes: Sizes) -> Memory:
    X = T.alloc_shared((sizes.num_stages, sizes.block_M, STEP), sizes.dtype)
    packed = T.alloc_shared((sizes.num_stages, ROWS, STEP // 2), "uint8")
    scales = T.alloc_shared((ROWS, sizes.steps), sizes.dtype)
    sums = T.alloc_shared((ROWS, sizes.block_M), "float32") if sizes.consumer_groups > 1 else None
    if sizes.swizzled:
        T.annotate_layout(
            {packed: make_half_bank_swizzled_layout(packed), scales: make_full_bank_swizzled_layout(scales)}
        )
    scales_full = T.alloc_barrier([1]) if sizes.scales_by_tma else None
    full = T.alloc_barrier([1] * sizes.num_stages)
    freed_by = [WARPS * sizes.cluster] * sizes.num_stages
    empty = T.alloc_cluster_barrier(freed_by) if sizes.cluster > 1 else T.alloc_barrier(freed_by)
    return Memory(X, packed, scales, sums, scales_full, full, empty)


@T.macro
def allocate_registers(sizes: Sizes) -> list[UnpackingRegisters]:
    shape = (ROWS, sizes.block_M)
    return [
        UnpackingRegisters(
            T.alloc_fragment((ROWS, STEP), sizes.dtype),
            T.alloc_fragment(shape, "float32"),
            T.alloc_fragment(shape, "float32"),
            T.alloc_fragment((ROWS,), "float32"),
        )
        for _ in range(sizes.consumer_groups)
    ]


@T.macro
def load(sizes: Sizes, memory: Memory, X: Any, packed: Any, scales: Any, m0: Any, n0: Any) -> None:
    """The producer's part: the weights of each step, and its activations, which one block loads for its cluster."""
    if sizes.scales_by_tma:
        T.tma_copy(scales[n0 : n0 + ROWS, :], memory.scales, barrier=memory.scales_full[0])
        if T.shuffle_elect(32):
            T.mbarrier_arrive(memory.scales_full[0])
    for k in T.serial(sizes.steps):
        stage = k % sizes.num_stages
        T.mbarrier_wait_parity(memory.empty[stage], ((k // sizes.num_stages) & 1) ^ 1)
        T.tma_copy(
            packed[n0 : n0 + ROWS, k * (STEP // 2) : (k + 1) * (STEP // 2)],
            memory.packed[stage, :, :],
            barrier=memory.full[stage],
            eviction_policy="evict_first",
        )
        T.tma_copy(
            X[m0 : m0 + sizes.block_M, k * STEP : (k + 1) * STEP],
            memory.X[stage, :, :],
            barrier=memory.full[stage],
            cluster_mask=(1 << sizes.cluster) - 1 if sizes.cluster > 1 else None,
            eviction_policy="evict_last",
        )
        if T.shuffle_elect(32):
            T.mbarrier_arrive(memory.full[stage])


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
    scaled: str = "sums",
    cluster: int = 1,
    scales_by_tma: bool = False,
    swizzled: bool = False,
    dependent_launch: bool = False,
) -> Program:
    """C[M,N] = X[M,K] · W[N,K]ᵀ of packed 4-bit weights with a scale for each 128 of a row, for few rows of X.

    A block has 64 rows of W and computes Cᵀ = W · Xᵀ, as WGMMA takes its left operand from registers. There a pair of
    weights is one byte: a permutation, a logical operation and a subtraction make two numbers of bfloat16 of it. So
    wide weights exist in registers alone. TMA loads the packed ones far ahead, as their bandwidth is the limit.

    Levers:

    - ``block_M``: rows of X that a block multiplies at once: the N of its WGMMA.
    - ``num_stages`` of the ring, each with 128 of K; a multiple of ``consumer_groups``.
    - ``consumer_groups``: they take the steps of K in turns, and one unpacks while another multiplies. At the end
      they add up.
    - ``scaled``: "weights", before they are multiplied and rounded to bfloat16 again, or "sums", in float32 after each
      step. A step has 64 x 128 weights and 64 x block_M sums.
    - ``cluster``: so many blocks along N share one load of X.
    - ``scales_by_tma``: TMA loads the scales too, and weights need not wait for them. Else all threads load them first,
      and TileLang puts a fence into each step, since they store to shared memory.
    - ``swizzled``: rows of packed weights and of scales that a warp reads together share no banks.
    - ``dependent_launch``: as in ``warp_specialized``.

    Limits: sm_90a; bf16; N in multiples of 64. Each block along N reads all of X.
    """
    require(scaled in ("sums", "weights"), f"scaled='{scaled}' is not 'sums' or 'weights'")
    sizes = Sizes.of(
        problem,
        block_M=block_M,
        num_stages=num_stages,
        consumer_groups=consumer_groups,
        cluster=cluster,
        scales_by_tma=scales_by_tma,
        swizzled=swizzled,
    )
    steps, groups = sizes.steps, consumer_groups

    @T.macro
    def multiply(memory: Memory, own: UnpackingRegisters, k: Any, thread: Any) -> None:
        """Add a step's product to the totals."""
        stage = k % num_stages
        T.mbarrier_wait_parity(memory.full[stage], (k // num_stages) & 1)
        # To TileLang an address may be stored to, so a fence would follow; threads that store scales need one anyway.
        pointer = partial(T.access_ptr, access_type="r") if scales_by_tma else T.address_of
        form = f"<{str(swizzled).lower()}>"
        T.call_extern("handle", f"unpack{form}", pointer(memory.packed[stage, 0, 0]), own.weights.data)
        if scaled == "weights":
            pitch = WIDE_SCALES if swizzled else steps
            T.call_extern("handle", f"scale_rows{form}", own.weights.data, pointer(memory.scales[0, k]), pitch)
        T.wgmma_gemm(
            own.weights,
            memory.X[stage, :, :],
            own.partial if scaled == "sums" else own.total,
            transpose_B=True,
            clear_accum=(scaled == "sums"),
        )
        if scaled == "sums":
            for i in T.Parallel(ROWS):
                own.scales[i] = memory.scales[i, k]
        T.wait_wgmma(0)
        free(sizes, memory, stage, thread)
        if scaled == "sums":
            T.warpgroup_fence_operand(own.partial, num_regs=ROWS * block_M // GROUP)
            for i, j in T.Parallel(ROWS, block_M):
                own.total[i, j] += own.partial[i, j] * own.scales[i]
        else:
            T.warpgroup_fence_operand(own.total, num_regs=ROWS * block_M // GROUP)

    @T.macro
    def consume(
        C: Any, memory: Memory, registers: list[UnpackingRegisters], m0: Any, n0: Any, thread: Any, group: int
    ) -> None:
        T.clear(registers[group].total)
        if scales_by_tma:
            T.mbarrier_wait_parity(memory.scales_full[0], 0)
        for turn in T.serial(ceildiv(steps - group, groups)):
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
                if thread < 32:
                    load(sizes, memory, X, packed, scales, m0, n0)
            else:
                run_consumers(groups, None, thread, partial(consume, C, memory, registers, m0, n0, thread), 0)
            if cluster > 1:
                T.cluster_sync()  # no block may leave while a peer still writes to it

    return program_of(main)
