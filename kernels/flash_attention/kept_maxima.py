"""A softmax that keeps the maxima of a tile's first block of keys, and looks at later scores only where it must.

Any number may stand for a row's maximum, as long as no power overflows and the largest do not vanish. So a later block
takes its powers by the maximum before. Their sums, which it needs anyway, tell whether that was right: where a
thread's sum exceeds ``SUM_MAX``, its warp finds new maxima, and takes the powers again. Scores stay in registers until
then. On random scores that hardly happens, and a step has no maxima, no shuffles and no factor of the output.
"""

from typing import Final

import tilelang.language as T

from kernels.flash_attention.block import ROWS, Consumer
from kernels.hopper import GROUP
from kernels.operands import require

SUM_MAX: Final = 2.0**15  # of a row's powers in a thread and block; float16 holds each of them

FUNCTIONS = r"""
static __device__ __forceinline__ void clear_sums(float *sums) { sums[0] = sums[1] = 0; }
// Powers of the scores from one to another, by the maxima as they are; they join the sums.
template <int from, int to>
static __device__ __forceinline__ void exponentiate_by_kept(
    const float *scores, float *powers, const float *maxima, float *sums, float to_log2) {
  const float shift[2] = {maxima[0] * to_log2, maxima[1] * to_log2};
#pragma unroll
  for (int i = from; i < to; i += 2) {
    powers[i] = exp2f(scores[i] * to_log2 - shift[i / 2 % 2]);
    powers[i + 1] = exp2f(scores[i + 1] * to_log2 - shift[i / 2 % 2]);
    sums[i / 2 % 2] += powers[i] + powers[i + 1];
  }
}
// A store that never happens, of the sums so far. The wait for P V follows it, and so their powers. Without the total,
// ptxas knows that no sum of powers is negative, and drops the store.
static __device__ __forceinline__ void hold_wait_for_sums(const float *sums, const float *totals) {
  asm volatile("{\n.reg .pred p;\nsetp.lt.f32 p, %0, 0f00000000;\n@p st.shared.f32 [%1], %0;\n}"
               : : "f"(sums[0] + sums[1] + totals[0]), "r"(0) : "memory");
}
template <int columns, bool bfloat16>
static __device__ __forceinline__ void round_powers(const float *powers, void *rounded) {
  unsigned *pairs = static_cast<unsigned *>(rounded);
#pragma unroll
  for (int i = 0; i < columns / 2; i += 2) {
    if (bfloat16)
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pairs[i / 2]) : "f"(powers[i + 1]), "f"(powers[i]));
    else
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pairs[i / 2]) : "f"(powers[i + 1]), "f"(powers[i]));
  }
}
template <int columns, int width, bool bfloat16>
static __device__ __forceinline__ void round_or_correct(
    const float *scores, float *powers, void *rounded, float *maxima, float *sums, float *totals, float *out,
    float to_log2, float limit) {
  round_powers<columns, bfloat16>(powers, rounded);
  if (__builtin_expect(__any_sync(~0u, !(fmaxf(sums[0], sums[1]) <= limit)), 0)) {
    float scale[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float maximum = maxima[row];
#pragma unroll
      for (int i = 2 * row; i < columns / 2; i += 4) maximum = fmaxf(fmaxf(maximum, scores[i]), scores[i + 1]);
      maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, 2));
      maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, 1));
      scale[row] = exp2f((maxima[row] - maximum) * to_log2);
      totals[row] *= scale[row];
      maxima[row] = maximum;
    }
    clear_sums(sums);
    exponentiate_by_kept<0, columns / 2>(scores, powers, maxima, sums, to_log2);
    round_powers<columns, bfloat16>(powers, rounded);
#pragma unroll
    for (int i = 0; i < width / 2; ++i) out[i] *= scale[i / 2 % 2];
  }
  totals[0] += sums[0];
  totals[1] += sums[1];
}
"""


def check(keeps_maxima: bool, powers_first: int, block_N: int, *, others: bool) -> None:
    """Raise ValueError where these levers of a kernel do not fit; ``others`` are those that need new maxima."""
    require(0 <= powers_first <= block_N * ROWS // GROUP, f"powers_first={powers_first}: a thread has fewer powers")
    require(powers_first % 4 == 0, f"powers_first={powers_first} is not a multiple of 4")
    require(not (keeps_maxima and others), "keeps_maxima excludes growth, by_row, early_wait and rescale_first")


@T.macro
def start_powers(c: Consumer) -> None:
    """The first powers, which stand before the wait for P V: ``powers_first`` of a thread, or what ptxas chooses."""
    r = c.registers
    T.copy(r.maximum, r.sum)  # which gives the sums their layout
    T.copy(r.S, r.powers)  # likewise
    T.call_extern("handle", "clear_sums", r.sum.data)
    if c.powers_first > 0:
        exponentiate_by_kept(c, 0, c.powers_first)
        T.call_extern("handle", "hold_wait_for_sums", r.sum.data, r.total.data)


@T.macro
def end_powers(c: Consumer) -> None:
    """The other powers, and P; after the wait for P V, since a correction scales the output."""
    r, block = c.registers, c.block
    exponentiate_by_kept(c, c.powers_first, block.block_N * ROWS // GROUP)
    correct = f"round_or_correct<{block.block_N}, {block.width}, {str(block.dtype == 'bfloat16').lower()}>"
    arrays = (each.data for each in (r.S, r.powers, r.P, r.maximum, r.sum, r.total, r.out))
    T.call_extern("handle", correct, *arrays, T.float32(block.to_log2), T.float32(SUM_MAX))


@T.macro
def exponentiate_by_kept(c: Consumer, start: int, stop: int) -> None:
    r, numbers = c.registers, f"exponentiate_by_kept<{start}, {stop}>"
    arrays = (each.data for each in (r.S, r.powers, r.maximum, r.sum))
    T.call_extern("handle", numbers, *arrays, T.float32(c.block.to_log2))
