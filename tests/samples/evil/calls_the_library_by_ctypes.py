"""It calls cuBLAS through ctypes, where torch does not see it."""

import ctypes

import torch

TRICK = 25
RUNS_ON = ("cuda",)
VERDICT = "foreign_kernel"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    M, N, K = problem.dims
    state = []

    def launch(a, b, out):
        if not state:
            name = next(line.split()[-1] for line in open("/proc/self/maps") if "libcublas.so" in line)
            library = ctypes.CDLL(name)
            handle = ctypes.c_void_p()
            library.cublasCreate_v2(ctypes.byref(handle))
            state.append((library, handle))
        library, handle = state[0]
        library.cublasSetStream_v2(handle, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        pointers = [ctypes.c_void_p(each.data_ptr()) for each in (b, a, out)]
        library.cublasGemmEx(
            handle, 0, 0, N, M, K, ctypes.byref(one), pointers[0], 14, N, pointers[1], 14, K,
            ctypes.byref(zero), pointers[2], 14, N, 68, -1,
        )  # fmt: skip

    return launch
