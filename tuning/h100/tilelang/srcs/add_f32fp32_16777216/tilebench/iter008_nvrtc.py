"""Compiled by NVRTC and launched through the driver from Python: no host compiler, but a device to load it, so at first use."""

from collections.abc import Callable

import tilelang
import tilelang.language as T
import torch

from harness.iteration import Problem, bench_with, main, verify_with

PARENT = "iter001_prim_func"
CONFIG = dict(block_N=1024, threads=256, execution_backend="nvrtc")


def build(problem: Problem) -> Callable[..., object]:
    (N,) = problem.dims
    block_N, threads = CONFIG["block_N"], CONFIG["threads"]

    @T.prim_func
    def kernel(X: T.Tensor((N,), "float32"), Y: T.Tensor((N,), "float32"), Z: T.Tensor((N,), "float32")):
        with T.Kernel(N // block_N, threads=threads) as bn:
            for i in T.Parallel(block_N):
                Z[bn * block_N + i] = X[bn * block_N + i] + Y[bn * block_N + i]

    compiled: list[Callable[..., object]] = []

    def launch(x: object, y: object, z: object) -> None:
        if not compiled:
            compiled.append(tilelang.compile(kernel, execution_backend=CONFIG["execution_backend"]))
        compiled[0](x, y, z, stream=torch.cuda.current_stream().cuda_stream)  # the null stream else

    return launch


def verify() -> bool:
    return verify_with(build)


def bench() -> bool:
    return bench_with(build)


if __name__ == "__main__":
    main(__file__)
