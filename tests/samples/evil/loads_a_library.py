"""C++ of its own loads torch's library, and has the product computed there."""

import tilelang.cpu.language as T

TRICK = 30
RUNS_ON = ("cpu",)
VERDICT = "not_pinned"
PARENT = "iter000_torch_matmul"
CONFIG = {}
SOURCE = """
#include <dlfcn.h>
extern "C" int32_t tile(float* c, float* a, float* b, int32_t m, int32_t n, int32_t k) {
  typedef void (*Product)(const char*, const char*, int*, int*, int*, float*, float*, int*, float*, int*, float*,
                          float*, int*);
  Product product = (Product)dlsym(dlopen("libtorch_cpu.so", 6), "sgemm_");
  float one = 1, zero = 0;
  product("N", "N", &n, &m, &k, &one, b, &n, a, &k, &zero, c, &n);
  return 0;
}
"""


def build(problem):
    M, N, K = problem.dims

    @T.prim_func
    def kernel(A: T.Tensor((M, K), "float32"), B: T.Tensor((K, N), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(1):
            T.import_source(SOURCE)
            T.evaluate(
                T.call_extern(
                    "int32", "tile", T.address_of(C[0, 0]), T.address_of(A[0, 0]), T.address_of(B[0, 0]), M, N, K
                )
            )

    return kernel
