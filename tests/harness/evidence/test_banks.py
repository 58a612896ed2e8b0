"""Bank conflicts are worked out from addresses, lane by lane, and only where an address can be seen."""

import time

import pytest

from harness.evidence.banks import conflicts, degree

KERNEL = """\
extern "C" __global__ void other(float* __restrict__ C);
extern "C" __global__ void __launch_bounds__(128, 1) other(float* __restrict__ C) {{
  __shared__ __align__(16) float tile[1024];
  C[((int)threadIdx.x)] = tile[((int)threadIdx.x)];
}}
extern "C" __global__ void __launch_bounds__(128, 1) main_kernel(const bfloat16_t* __restrict__ A) {{
  extern __shared__ __align__(1024) uchar buf_dyn_shmem[];
  void* A_shared = ((void*)((char*)buf_dyn_shmem + 0));
  float C_local[64];
  for (int k = 0; k < 4; ++k) {{
    {access};
  }}
}}
"""
LANE = "((int)threadIdx.x)"


@pytest.mark.parametrize(
    ("addresses", "width_bytes", "ways"),
    [
        ([4 * lane for lane in range(32)], 4, 1),
        ([8 * lane for lane in range(32)], 4, 2),
        ([128 * lane for lane in range(32)], 4, 32),
        ([132 * lane for lane in range(32)], 4, 1),  # padded by one word
        ([0] * 32, 4, 1),  # all lanes read one word
        ([16 * lane for lane in range(32)], 16, 1),  # eight lanes at a time
        ([128 * lane for lane in range(32)], 16, 8),
        ([2 * lane for lane in range(32)], 2, 1),  # two lanes in one word
    ],
)
def test_the_degree_is_the_most_words_that_one_bank_is_asked_for_at_once(
    addresses: list[int], width_bytes: int, ways: int
) -> None:
    assert degree(addresses, width_bytes) == ways


@pytest.mark.parametrize(
    ("access", "says"),
    [
        (f"*(uint4*)(((bfloat16_t*)A_shared) + (({LANE} * 64))) = x", "8-way, in A_shared, 16 bytes a thread"),
        (f"*(uint4*)(((bfloat16_t*)A_shared) + (({LANE} * 8))) = x", None),
        (f"y = ((float*)A_shared)[(({LANE} * 32) + k)]", "32-way, in A_shared, 4 bytes a thread"),
        (f"y = ((float*)A_shared)[(({LANE} * 33) + k)]", None),
        (
            f"tl::ptx_ldmatrix_x4((&(((bfloat16_t*)A_shared)[((k * 1024) + (({LANE} & 15) * 64))])), (&(C_local[0])))",
            "8-way, in A_shared, 16 bytes a thread",
        ),
        (  # the same, swizzled by 128 bytes
            f"tl::ptx_ldmatrix_x4((&(((bfloat16_t*)A_shared)[((({LANE} & 15) * 64) + (({LANE} & 7) * 8))])), x)",
            None,
        ),
        (f"tl::cp_async_gs<16>((&(((bfloat16_t*)A_shared)[(({LANE} >> 3) * 64)])), (&(A[0])))", None),
        (f"y = C_local[(({LANE} * 32))]", None),  # not shared memory
        (f"y = ((float*)A_shared)[(({LANE} * 32) + table[k])]", None),  # hangs on what cannot be seen
        (f"y = ((float*)A_shared)[(({LANE} * 32) / 0)]", None),
        ("tl::tma_load(A_desc, barrier, (&(((bfloat16_t*)A_shared)[(k * 8192)])), 0, 0)", None),
    ],
)
def test_an_access_that_conflicts_is_said_with_its_buffer_and_width(access: str, says: str | None) -> None:
    found = conflicts(KERNEL.format(access=access))
    assert found["other"] == ()
    assert [each.partition(", one place")[0] for each in found["main_kernel"]] == ([] if says is None else [says])


def test_a_source_from_a_contestant_is_never_run() -> None:
    evil = "y = ((float*)A_shared)[(__import__('os').system('false') + ((int)threadIdx.x) * 32)]"
    assert conflicts(KERNEL.format(access=evil))["main_kernel"] == ()
    deep = "y = ((float*)A_shared)[(" + "(" * 1500 + "((int)threadIdx.x)" + ")" * 1500 + ")]"
    assert conflicts(KERNEL.format(access=deep))["main_kernel"] == ()
    huge = "y = ((float*)A_shared)[(((int)threadIdx.x) << 999999999999)]"
    conflicts(KERNEL.format(access=huge))


@pytest.mark.parametrize(
    "piece", ["__global__ void k(", "((float*)A_shared)[((((", "void* ", "__shared__ float t[1]; t[("]
)
def test_a_source_that_is_made_to_be_slow_to_read_is_not(piece: str) -> None:
    def cost_s(characters: int) -> float:
        started = time.process_time()
        conflicts('extern "C" __global__ void main_kernel(int* p) {' + piece * (characters // len(piece)))
        return time.process_time() - started

    assert cost_s(100_000) < 2 * 100 * max(0.01, cost_s(1_000))  # a hundred times as long
