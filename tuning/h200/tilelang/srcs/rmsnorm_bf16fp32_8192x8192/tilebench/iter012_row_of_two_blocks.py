"""Two blocks of a cluster share a row, so that four blocks of 512 threads fill an SM."""

import tilelang.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter008_one_vector_a_thread"
CONFIG = dict(threads=512, min_blocks=4, cluster=2)

FUNCTIONS = r"""
__device__ __forceinline__ void arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }

__device__ __forceinline__ void wait_for_peer() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

__device__ __forceinline__ void send(float* at, float value, int block) {
  unsigned there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(there) : "r"(static_cast<unsigned>(__cvta_generic_to_shared(at))), "r"(block));
  asm volatile("st.shared::cluster.f32 [%0], %1;" :: "r"(there), "f"(value) : "memory");
}
"""


def build(problem: Problem) -> Program:
    (M, N), eps = problem.dims, problem.scalars["eps"]
    threads, cluster = CONFIG["threads"], CONFIG["cluster"]
    vectors, warps = N // cluster // threads // 8, threads // 32

    @T.prim_func
    def kernel(
        X: T.Tensor((M, N), "bfloat16"),
        R: T.Tensor((M, N), "bfloat16"),
        W: T.Tensor((N,), "bfloat16"),
        Y: T.Tensor((M, N), "bfloat16"),
        total: T.Tensor((M, N), "bfloat16"),
    ):
        with T.ClusterKernel(M * cluster, threads=threads, cluster_dims=(cluster, 1, 1), prelude=FUNCTIONS) as block:
            T.annotate_min_blocks_per_sm(CONFIG["min_blocks"])
            thread = T.get_thread_binding()
            m, own = block // cluster, block % cluster
            first = own * (N // cluster)
            added = T.alloc_local((8,), "bfloat16")
            rounded = T.alloc_local((8,), "bfloat16")
            weight = T.alloc_local((vectors * 8,), "bfloat16")
            row = T.alloc_local((vectors * 8,), "float32")
            squares = T.alloc_local((1,), "float32")
            partial = T.alloc_shared((cluster * warps,), "float32")
            T.call_extern("handle", "arrive")
            squares[0] = 0.0
            for v in T.unroll(vectors):
                for j in T.vectorized(8):
                    rounded[j] = X[m, first + (v * threads + thread) * 8 + j]
                for j in T.vectorized(8):
                    added[j] = R[m, first + (v * threads + thread) * 8 + j]
                for j in T.unroll(8):
                    row[v * 8 + j] = T.cast(rounded[j], "float32") + T.cast(added[j], "float32")
            for v in T.unroll(vectors):
                for j in T.vectorized(8):
                    weight[v * 8 + j] = W[first + (v * threads + thread) * 8 + j]
            for v in T.unroll(vectors):
                for j in T.vectorized(8):
                    rounded[j] = T.cast(row[v * 8 + j], "bfloat16")
                for j in T.vectorized(8):
                    total[m, first + (v * threads + thread) * 8 + j] = rounded[j]
            for i in T.unroll(vectors * 8):
                squares[0] += row[i] * row[i]
            squares[0] = T.warp_reduce_sum(squares[0])
            T.call_extern("handle", "wait_for_peer")
            if thread % 32 == 0:
                for peer in T.unroll(cluster):
                    T.call_extern("handle", "send", T.address_of(partial[own * warps + thread // 32]), squares[0], peer)
            T.call_extern("handle", "arrive")
            T.call_extern("handle", "wait_for_peer")
            squares[0] = 0.0
            for part in T.unroll(cluster * warps // 32):
                squares[0] += partial[part * 32 + thread % 32]
            squares[0] = T.warp_reduce_sum(squares[0])
            squares[0] = T.rsqrt(squares[0] / N + eps)
            for v in T.unroll(vectors):
                for j in T.vectorized(8):
                    rounded[j] = T.cast(row[v * 8 + j] * squares[0] * T.cast(weight[v * 8 + j], "float32"), "bfloat16")
                for j in T.vectorized(8):
                    Y[m, first + (v * threads + thread) * 8 + j] = rounded[j]

    return Program(kernel)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
