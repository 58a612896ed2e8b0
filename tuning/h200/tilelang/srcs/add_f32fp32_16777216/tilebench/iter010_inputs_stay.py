"""Inputs are marked to leave the L2 last, so that the output leaves it first, as it comes."""

import tilelang.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter007_cython"
CONFIG = dict(threads=256)

FUNCTIONS = r"""
static __device__ __forceinline__ void load_to_stay(void* to, const void* from) {
  unsigned long long leaves_last;
  uint4 v;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(leaves_last));
  asm volatile("ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from), "l"(leaves_last));
  memcpy(to, &v, 16);
}
"""


def build(problem: Problem) -> Program:
    (N,) = problem.dims
    threads = CONFIG["threads"]

    @T.prim_func
    def kernel(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32"), Z: T.Tensor((N,), "float32")):
        with T.Kernel(N // (threads * 4), threads=threads, prelude=FUNCTIONS) as block:
            thread = T.get_thread_binding()
            x = T.alloc_local((4,), "float32")
            y = T.alloc_local((4,), "float32")
            first = (block * threads + thread) * 4
            T.call_extern("handle", "load_to_stay", T.address_of(x[0]), T.address_of(X[first]))
            T.call_extern("handle", "load_to_stay", T.address_of(y[0]), T.address_of(Y[first]))
            for i in T.vectorized(4):
                Z[first + i] = x[i] + y[i]

    return Program(kernel)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
