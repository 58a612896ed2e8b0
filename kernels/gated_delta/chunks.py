"""The first launch: what a chunk decides without the state before it, for all chunks at once."""

from typing import Any

import tilelang.language as T
from tilelang.layout import make_full_bank_swizzled_layout

from kernels.gated_delta.sizes import CHUNK, COLUMNS, Between, DeltaSizes, ready
from kernels.hopper import GROUP

PART = 16  # rows of a block on the diagonal that is inverted by substitution
INVERSES = ("substitution", "blocks")


@T.macro
def sum_decay(decay: Any, rate: Any, lost: Any, since: Any, share: Any, b: Any, first: Any, h: Any) -> None:
    """since[i]: the decay of the tokens up to i; share[i]: the rate of token i."""
    thread = T.get_thread_binding()
    total = T.alloc_var("float32", init=0)
    if thread < CHUNK:
        lost[thread] = decay[b, first + thread, h]
        share[thread] = rate[b, first + thread, h]
    T.sync_threads()
    if thread < CHUNK:
        for j in T.serial(CHUNK):
            total = total + T.if_then_else(j <= thread, lost[j], 0.0)
        since[thread] = total
    T.sync_threads()


@T.macro
def invert_whole(among: Any, inverse: Any) -> None:
    """Columns of (I + among)⁻¹ by substitution, one by each thread; ``inverse`` is float32."""
    column = T.get_thread_binding()
    value = T.alloc_var("float32")
    if column < CHUNK:
        for i in T.serial(CHUNK):
            value = T.if_then_else(i == column, 1.0, 0.0)
            for k in T.serial(i):
                value = value - among[i, k] * inverse[k, column]
            inverse[i, column] = value
    T.sync_threads()


@T.macro
def invert_parts(corners: Any, inverses: Any, dtype: str) -> None:
    """The inverses of the blocks on the diagonal; a thread has a column in registers."""
    column = T.get_thread_binding()
    first = T.truncdiv(column, PART) * PART
    x = T.alloc_local((PART,), "float32")
    if column < CHUNK:
        for i in list(range(PART)):
            x[i] = T.if_then_else(first + i == column, 1.0, 0.0)
            for k in list(range(i)):
                x[i] = x[i] - corners[first + i, k] * x[k]
            inverses[first + i, column] = T.cast(x[i], dtype)


@T.macro
def product(A: Any, B: Any, C: Any, **options: bool) -> None:
    """C = A B at once."""
    T.wgmma_gemm(A, B, C, clear_accum=True, **options)
    T.wait_wgmma(0)
    T.warpgroup_fence_operand(C, num_regs=C.shape[0] * C.shape[1] // GROUP)


@T.macro
def share_tile(fragment: Any, buffer: Any) -> None:
    """Copy a fragment to shared memory, for products and TMA of all threads."""
    T.copy(fragment, buffer)
    T.fence_proxy_async()
    T.sync_threads()


@T.macro
def invert_by_blocks(products: Any, left: Any, corners: Any, inverses: Any, below: Any, dtype: str) -> None:
    """products = (I + among)⁻¹, where ``products`` is ``among`` at first.

    With D the inverses of the blocks on the diagonal and N = D (what lies below them), N⁴ = 0. So the inverse is
    (I - N) (I + N²) D.
    """
    for i, j in T.Parallel(CHUNK, CHUNK):
        if T.truncdiv(i, PART) == T.truncdiv(j, PART):
            corners[i, T.truncmod(j, PART)] = products[i, j]
    for i, j in T.Parallel(CHUNK, CHUNK):
        products[i, j] = T.if_then_else(T.truncdiv(i, PART) == T.truncdiv(j, PART), 0.0, products[i, j])
    T.clear(inverses)
    share_tile(products, below)
    invert_parts(corners, inverses, dtype)
    T.fence_proxy_async()
    T.sync_threads()
    product(inverses, below, products)
    T.sync_threads()  # all have read what lies below
    share_tile(products, below)  # N
    for i, j in T.Parallel(CHUNK, CHUNK):
        left[0][i, j] = T.cast(T.if_then_else(i == j, 1.0, -products[i, j]), dtype)
        left[1][i, j] = T.cast(products[i, j], dtype)
    product(left[1], below, products)
    for i, j in T.Parallel(CHUNK, CHUNK):
        left[1][i, j] = T.cast(T.if_then_else(i == j, 1.0, products[i, j]), dtype)
    product(left[1], inverses, products)
    T.sync_threads()  # all have read N
    share_tile(products, below)
    product(left[0], below, products)
    T.sync_threads()


def prepare(sizes: DeltaSizes, inverse: str) -> Any:
    """The macro of the launch; ``inverse`` is one of INVERSES."""
    depth, width, dtype = sizes.depth, sizes.width, sizes.dtype

    @T.macro
    def run(Q: Any, K: Any, V: Any, decay: Any, rate: Any, between: Between) -> None:
        with T.Kernel(sizes.chunks, sizes.heads, sizes.batches, threads=GROUP) as (n, h, b):
            queries = T.alloc_shared((CHUNK, depth), dtype)  # later what is erased
            keys = T.alloc_shared((CHUNK, depth), dtype)
            values = T.alloc_shared((CHUNK, width), dtype)
            written = T.alloc_shared((width, CHUNK), dtype)
            weights = T.alloc_shared((CHUNK, CHUNK), dtype)
            tiles = [T.alloc_shared((CHUNK, CHUNK), dtype) for _ in range(2)]
            lost = T.alloc_shared((CHUNK,), "float32")
            since = T.alloc_shared((CHUNK,), "float32")
            share = T.alloc_shared((CHUNK,), "float32")
            products = T.alloc_fragment((CHUNK, CHUNK), "float32")
            erased = T.alloc_fragment((CHUNK, depth), "float32")
            added = T.alloc_fragment((width, CHUNK), "float32")
            full = T.alloc_barrier([1])
            T.annotate_layout({each: make_full_bank_swizzled_layout(each) for each in (weights, written)})
            thread = T.get_thread_binding()
            first = n * CHUNK
            row = b * sizes.tokens + first
            if thread < 32:
                T.tma_copy(K[b, first : first + CHUNK, h, 0:depth], keys, barrier=full[0])
                T.tma_copy(Q[b, first : first + CHUNK, h, 0:depth], queries, barrier=full[0])
                T.tma_copy(V[b, first : first + CHUNK, h, 0:width], values, barrier=full[0])
                ready(full, 0)
            sum_decay(decay, rate, lost, since, share, b, first, h)
            if thread < CHUNK:
                between.gates[b, h, n, 0, thread] = T.exp(-since[thread])
                between.gates[b, h, n, 1, thread] = T.exp(since[thread] - since[CHUNK - 1])
            T.mbarrier_wait_parity(full[0], 0)
            product(queries, keys, products, transpose_B=True)
            for i, j in T.Parallel(CHUNK, CHUNK):
                products[i, j] = T.if_then_else(j <= i, products[i, j] * T.exp(T.min(since[j] - since[i], 0.0)), 0.0)
            share_tile(products, weights)
            if thread < 32:
                T.tma_copy(weights, between.weights[row : row + CHUNK, h, 0:CHUNK])
            product(keys, keys, products, transpose_B=True)
            for i, j in T.Parallel(CHUNK, CHUNK):
                products[i, j] = T.if_then_else(
                    j < i, share[i] * products[i, j] * T.exp(T.min(since[j] - since[i], 0.0)), 0.0
                )
            if inverse == "blocks":
                left = [T.alloc_fragment((CHUNK, CHUNK), dtype) for _ in range(2)]
                corners = T.alloc_shared((CHUNK, PART), "float32")
                invert_by_blocks(products, left, corners, tiles[0], tiles[1], dtype)
            else:
                among = T.alloc_shared((CHUNK, CHUNK), "float32")
                whole = T.alloc_shared((CHUNK, CHUNK), "float32")
                T.copy(products, among)
                T.sync_threads()
                invert_whole(among, whole)
                T.copy(whole, products)
            for i, j in T.Parallel(CHUNK, CHUNK):
                products[i, j] *= share[j]
            T.copy(products, tiles[0])
            for i, j in T.Parallel(CHUNK, CHUNK):
                products[i, j] *= -T.exp(-since[j])
            share_tile(products, tiles[1])
            T.wgmma_gemm(tiles[1], keys, erased, clear_accum=True)
            T.wgmma_gemm(values, tiles[0], added, transpose_A=True, transpose_B=True, clear_accum=True)
            T.wait_wgmma(0)
            T.warpgroup_fence_operand(erased, num_regs=depth * CHUNK // GROUP)
            T.warpgroup_fence_operand(added, num_regs=width * CHUNK // GROUP)
            T.copy(added, written)
            share_tile(erased, queries)
            if thread < 32:
                T.tma_copy(queries, between.erased[row : row + CHUNK, h, 0:depth])
                for part in list(range(width // COLUMNS)):
                    rows = slice(part * COLUMNS, (part + 1) * COLUMNS)
                    T.tma_copy(written[rows, :], between.written[b, h, n, rows, :])
                T.tma_store_wait(0, False)

    return run
