"""A block for each 64 columns of V goes from chunk to chunk in the plain form, and substitutes token by token."""

import tilelang.language as T

from harness.iteration import Problem, Program, bench_with, main, verify_with

PARENT = "iter000_torch_chunked_delta_rule"
CONFIG = dict(chunk=64, block_V=64, threads=128)


@T.macro
def weigh(products, since, strict):
    """Scale the products of a token's row and the tokens before it by what their gates leave; zeros elsewhere."""
    for i, j in T.Parallel(*products.shape):
        left = products[i, j] * T.exp(T.min(since[j] - since[i], 0.0))
        products[i, j] = T.if_then_else(j + strict <= i, left, 0.0)


@T.macro
def substitute(among, added):
    """Solve (I + among) x = added in place; each thread has a column."""
    column = T.get_thread_binding()
    value = T.alloc_var("float32")
    if column < added.shape[1]:
        for i in T.serial(1, added.shape[0]):
            value = added[i, column]
            for k in T.serial(i):
                value = value - among[i, k] * added[k, column]
            added[i, column] = value


def build(problem: Problem) -> Program:
    B, H, S, K, V = problem.dims
    chunk, block_V, threads = CONFIG["chunk"], CONFIG["block_V"], CONFIG["threads"]
    (state_shape, _) = problem.outputs[1]

    @T.prim_func
    def kernel(
        Q: T.Tensor((B, S, H, K), problem.input),
        Keys: T.Tensor((B, S, H, K), problem.input),
        Values: T.Tensor((B, S, H, V), problem.input),
        decay: T.Tensor((B, S, H), "float32"),
        rate: T.Tensor((B, S, H), "float32"),
        Out: T.Tensor((B, S, H, V), problem.output),
        State: T.Tensor(state_shape, problem.output),
    ):
        with T.Kernel(V // block_V, H, B, threads=threads) as (tile, h, b):
            queries = T.alloc_shared((chunk, K), problem.input)
            keys = T.alloc_shared((chunk, K), problem.input)
            values = T.alloc_shared((chunk, block_V), problem.input)
            state16 = T.alloc_shared((K, block_V), problem.input)
            added16 = T.alloc_shared((chunk, block_V), problem.input)
            weights = T.alloc_shared((chunk, chunk), problem.input)
            among = T.alloc_shared((chunk, chunk), "float32")
            added = T.alloc_shared((chunk, block_V), "float32")
            since = T.alloc_shared((chunk,), "float32")
            share = T.alloc_shared((chunk,), "float32")
            products = T.alloc_fragment((chunk, chunk), "float32")
            held = T.alloc_fragment((chunk, block_V), "float32")
            out = T.alloc_fragment((chunk, block_V), "float32")
            state = T.alloc_fragment((K, block_V), "float32")
            total = T.alloc_var("float32")
            thread = T.get_thread_binding()
            column = tile * block_V
            T.clear(state)
            for n in T.serial(S // chunk):
                first = n * chunk
                T.copy(Q[b, first : first + chunk, h, 0:K], queries)
                T.copy(Keys[b, first : first + chunk, h, 0:K], keys)
                T.copy(Values[b, first : first + chunk, h, column : column + block_V], values)
                if thread < chunk:
                    total = 0.0
                    for j in T.serial(chunk):
                        total = total + T.if_then_else(j <= thread, decay[b, first + j, h], 0.0)
                    since[thread] = total
                    share[thread] = rate[b, first + thread, h]
                T.gemm(keys, keys, products, transpose_B=True, clear_accum=True)
                weigh(products, since, 1)
                for i, j in T.Parallel(chunk, chunk):
                    among[i, j] = share[i] * products[i, j]
                T.copy(state, state16)
                T.gemm(keys, state16, held, clear_accum=True)
                for i, j in T.Parallel(chunk, block_V):
                    added[i, j] = share[i] * (values[i, j] - T.exp(-since[i]) * held[i, j])
                substitute(among, added)
                T.gemm(queries, keys, products, transpose_B=True, clear_accum=True)
                weigh(products, since, 0)
                T.copy(products, weights)
                T.copy(added, added16)
                T.gemm(queries, state16, out, clear_accum=True)
                for i, j in T.Parallel(chunk, block_V):
                    out[i, j] *= T.exp(-since[i])
                T.gemm(weights, added16, out)
                T.copy(out, Out[b, first : first + chunk, h, column : column + block_V])
                for i, j in T.Parallel(chunk, block_V):
                    added16[i, j] = added[i, j] * T.exp(since[i] - since[chunk - 1])
                for i, j in T.Parallel(K, block_V):
                    state[i, j] *= T.exp(-since[chunk - 1])
                T.gemm(keys, added16, state, transpose_A=True)
            T.copy(state, State[b, h, 0:K, column : column + block_V])

    return Program(kernel)


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__kernel_":
    main(__file__)
