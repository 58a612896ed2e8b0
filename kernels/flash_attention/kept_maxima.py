"""A softmax that keeps the maxima of a tile's first block of keys, and looks at later scores only where it must.

Any number may stand for a row's maximum, as long as no power overflows and the largest do not vanish. So a later block
takes its powers by the maximum before. Their sums, which it needs anyway, tell whether that was right: where a
thread's sum exceeds ``SUM_MAX``, its warp finds new maxima, and takes the powers again. Scores stay in registers until
then. On random scores that hardly happens, and a step has no maxima, no shuffles and no factor of the output.
"""

from typing import Any, Final

import tilelang.language as T

from kernels.flash_attention.block import MAX_LOG2, ROWS, Consumer
from kernels.flash_attention.steps import end_values
from kernels.hopper import GROUP
from kernels.operands import require

SUM_MAX: Final = 2.0**MAX_LOG2  # of a row's powers in a thread and block, so that 16 bits hold each of them

FUNCTIONS = r"""
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
// The first powers. Without the total, ptxas knows that no sum of powers is negative, and drops what holds the wait.
template <int count>
static __device__ __forceinline__ void start_powers(
    const float *scores, float *powers, const float *maxima, float *sums, const float *totals, float to_log2) {
  sums[0] = sums[1] = 0;
  exponentiate_by_kept<0, count>(scores, powers, maxima, sums, to_log2);
  if (count > 0) hold_wait(sums[0] + sums[1] + totals[0]);
}
template <int columns, bool bfloat16>
static __device__ __forceinline__ void round_powers(const float *powers, unsigned *pairs) {
#pragma unroll
  for (int i = 0; i < columns / 2; i += 2) {
    if (bfloat16)
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pairs[i / 2]) : "f"(powers[i + 1]), "f"(powers[i]));
    else
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pairs[i / 2]) : "f"(powers[i + 1]), "f"(powers[i]));
  }
}
// Whether one power is more than half of what its row has in this thread. Powers are ordered as their bits are.
template <int columns, bool bfloat16>
static __device__ __forceinline__ bool one_is_heavy(const unsigned *pairs, const float *sums, const float *totals) {
  bool heavy = false;
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    unsigned largest = 0;
#pragma unroll
    for (int i = row; i < columns / 4; i += 2) largest = __vmaxu2(largest, pairs[i]);
    largest = max(largest & 0xffff, largest >> 16);
    // The exponent of float16 has another place and bias.
    const float power = bfloat16 ? __uint_as_float(largest << 16) : __uint_as_float(largest << 13) * 0x1p112f;
    heavy |= 2 * power > sums[row] + totals[row];
  }
  return heavy;
}
template <int columns, int width, bool bfloat16>
static __device__ __forceinline__ void correct(
    const float *scores, float *powers, unsigned *pairs, float *maxima, float *sums, float *totals, float *out,
    float to_log2) {
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
  sums[0] = sums[1] = 0;
  exponentiate_by_kept<0, columns / 2>(scores, powers, maxima, sums, to_log2);
  round_powers<columns, bfloat16>(powers, pairs);
#pragma unroll
  for (int i = 0; i < width / 2; ++i) out[i] *= scale[i / 2 % 2];
}
// The other powers, and P of all. A power can only be most of a sum where the block's sum exceeds all before it.
template <int columns, int width, int first, bool bfloat16, bool exact_weights>
static __device__ __forceinline__ void end_powers(
    const float *scores, float *powers, void *rounded, float *maxima, float *sums, float *totals, float *out,
    float to_log2, float limit) {
  unsigned *pairs = static_cast<unsigned *>(rounded);
  exponentiate_by_kept<first, columns / 2>(scores, powers, maxima, sums, to_log2);
  round_powers<columns, bfloat16>(powers, pairs);
  const bool over = !(fmaxf(sums[0], sums[1]) <= limit);
  const bool suspect = exact_weights && (sums[0] > totals[0] || sums[1] > totals[1]);
  if (__builtin_expect(__any_sync(~0u, over || suspect), 0)) {
    if (!exact_weights || __any_sync(~0u, over || one_is_heavy<columns, bfloat16>(pairs, sums, totals)))
      correct<columns, width, bfloat16>(scores, powers, pairs, maxima, sums, totals, out, to_log2);
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
def softmax(c: Consumer, at: Any) -> None:
    """From the scores of the ``at``-th block of keys to P; the wait for P V of the block before stands in between.

    ``powers_first`` of a thread's powers stand before the wait, or what ptxas chooses. The others stand after it, since
    a correction scales the output.
    """
    r, block, to_log2 = c.registers, c.block, T.float32(c.block.to_log2)
    T.copy(r.maximum, r.sum)  # which gives the sums their layout
    T.copy(r.S, r.powers)  # likewise
    arrays = (each.data for each in (r.S, r.powers, r.maximum, r.sum, r.total))
    T.call_extern("handle", f"start_powers<{c.powers_first}>", *arrays, to_log2)
    end_values(c, at - 1)
    flags = ", ".join(str(each).lower() for each in (block.dtype == "bfloat16", c.exact_weights))
    rest = f"end_powers<{block.block_N}, {block.width}, {c.powers_first}, {flags}>"
    arrays = (each.data for each in (r.S, r.powers, r.P, r.maximum, r.sum, r.total, r.out))
    T.call_extern("handle", rest, *arrays, to_log2, T.float32(SUM_MAX))
