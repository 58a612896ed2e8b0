"""The honest kernel, slowed on purpose by a wait of known length."""

import time

import tilelang
import tilelang.language as T
from tilelang import tvm

from kernels.honest import compiled

PARENT = "iter000_torch_matmul"
CONFIG = dict(wait=0)  # cycles of an SM, on a CPU nanoseconds

SPIN = r"""
static __device__ __forceinline__ void spin(int cycles) {
  long long start = clock64();
  while (clock64() - start < cycles) {
  }
}
"""


def build(problem):
    kernel, wait = compiled(problem), CONFIG["wait"]
    if problem.input == "float32":

        def launch_on_cpu(a, b, out):
            kernel(a, b, out)
            until = time.perf_counter_ns() + wait
            while time.perf_counter_ns() < until:
                pass

        return launch_on_cpu

    @T.prim_func
    def spin(C: T.Tensor(problem.output_shape, problem.output)):
        with T.Kernel(1, threads=32, prelude=SPIN):
            T.call_extern("handle", "spin", wait)
            if T.get_thread_binding() > 32:  # never: a kernel without its parameter does not compile
                C[0, 0] = T.cast(0, problem.output)

    waiting = tilelang.compile(spin, target=tvm.target.Target({"kind": "cuda", "arch": "sm_90a"}))

    def launch(a, b, out):
        kernel(a, b, out)
        waiting(out)

    return launch
