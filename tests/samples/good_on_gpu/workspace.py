"""Stream-K keeps its partial sums and its counters in workspaces that are allocated once."""

from kernels.gemm import stream_k

PARENT = "iter000_torch_matmul"
CONFIG = dict(
    block_M=128,
    block_N=256,
    block_K=64,
    num_stages=4,
    consumer_groups=2,
    cluster_M=2,
    group_M=8,
    num_sms=132,
    wgmma_in_flight=1,
    epilogue_N=64,
    epilogue_buffers=2,
)


def build(problem):
    return stream_k(problem, **CONFIG)
