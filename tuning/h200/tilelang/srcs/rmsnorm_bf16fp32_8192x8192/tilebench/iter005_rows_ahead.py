"""One block an SM takes row after row, and a warp loads whole rows ahead in bulk: loads never wait for a sum."""

import tilelang.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter004_one_barrier"
CONFIG = dict(blocks=132, threads=384, num_stages=6)


def build(problem: Problem) -> Program:
    (M, N), eps = problem.dims, problem.scalars["eps"]
    blocks, num_stages = CONFIG["blocks"], CONFIG["num_stages"]
    consumers = CONFIG["threads"] - 128  # without the loading warp and its three idle neighbours
    vectors, warps, waves = N // consumers // 8, consumers // 32, -(-M // blocks)

    @T.prim_func
    def kernel(
        X: T.Tensor((M, N), "bfloat16"),
        R: T.Tensor((M, N), "bfloat16"),
        W: T.Tensor((N,), "bfloat16"),
        Y: T.Tensor((M, N), "bfloat16"),
        total: T.Tensor((M, N), "bfloat16"),
    ):
        with T.Kernel(blocks, threads=CONFIG["threads"]) as block:
            x_stages = T.alloc_shared((num_stages, N), "bfloat16")
            r_stages = T.alloc_shared((num_stages, N), "bfloat16")
            partial = T.alloc_shared((2, warps), "float32")
            full = T.alloc_barrier([1] * num_stages)
            empty = T.alloc_barrier([warps] * num_stages)
            thread = T.get_thread_binding()
            if thread < 128:
                if thread < 32:
                    for wave in T.serial(waves):
                        if wave * blocks + block < M:
                            stage = wave % num_stages
                            T.mbarrier_wait_parity(empty[stage], ((wave // num_stages) & 1) ^ 1)
                            T.tma_copy(X[wave * blocks + block, 0:N], x_stages[stage, :], barrier=full[stage])
                            T.tma_copy(R[wave * blocks + block, 0:N], r_stages[stage, :], barrier=full[stage])
                            if T.shuffle_elect(32):
                                T.mbarrier_arrive(full[stage])
            else:
                own = thread - 128
                added = T.alloc_local((8,), "bfloat16")
                rounded = T.alloc_local((8,), "bfloat16")
                weight = T.alloc_local((vectors * 8,), "bfloat16")
                row = T.alloc_local((vectors * 8,), "float32")
                squares = T.alloc_local((1,), "float32")
                for v in T.unroll(vectors):
                    for j in T.vectorized(8):
                        weight[v * 8 + j] = W[(v * consumers + own) * 8 + j]
                for wave in T.serial(waves):
                    if wave * blocks + block < M:
                        m = wave * blocks + block
                        stage = wave % num_stages
                        T.mbarrier_wait_parity(full[stage], (wave // num_stages) & 1)
                        squares[0] = 0.0
                        for v in T.unroll(vectors):
                            for j in T.vectorized(8):
                                rounded[j] = x_stages[stage, (v * consumers + own) * 8 + j]
                            for j in T.vectorized(8):
                                added[j] = r_stages[stage, (v * consumers + own) * 8 + j]
                            for j in T.unroll(8):
                                row[v * 8 + j] = T.cast(rounded[j], "float32") + T.cast(added[j], "float32")
                                squares[0] += row[v * 8 + j] * row[v * 8 + j]
                        squares[0] = T.warp_reduce_sum(squares[0])
                        if own % 32 == 0:
                            T.mbarrier_arrive(empty[stage])
                            partial[wave % 2, own // 32] = squares[0]
                        for v in T.unroll(vectors):
                            for j in T.vectorized(8):
                                rounded[j] = T.cast(row[v * 8 + j], "bfloat16")
                            for j in T.vectorized(8):
                                total[m, (v * consumers + own) * 8 + j] = rounded[j]
                        T.sync_threads(1, consumers)
                        squares[0] = 0.0
                        for warp in T.unroll(warps):
                            squares[0] += partial[wave % 2, warp]
                        squares[0] = T.rsqrt(squares[0] / N + eps)
                        for v in T.unroll(vectors):
                            for j in T.vectorized(8):
                                rounded[j] = T.cast(
                                    row[v * 8 + j] * squares[0] * T.cast(weight[v * 8 + j], "float32"), "bfloat16"
                                )
                            for j in T.vectorized(8):
                                Y[m, (v * consumers + own) * 8 + j] = rounded[j]

    return Program(
        kernel, pass_configs={"tl.disable_shared_memory_reuse": True, "tl.disable_thread_storage_sync": True}
    )


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
