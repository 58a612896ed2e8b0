"""GEMM families for Hopper: each takes a problem and its tuning parameters and returns a Program."""

from kernels.gemm.block_scaled import block_scaled
from kernels.gemm.grouped import grouped
from kernels.gemm.int4_weights import int4_weights
from kernels.gemm.ping_pong import ping_pong
from kernels.gemm.pipelined import pipelined
from kernels.gemm.split_k import split_k
from kernels.gemm.stationary import stationary
from kernels.gemm.stream_k import stream_k
from kernels.gemm.warp_specialized import warp_specialized

__all__ = [
    "block_scaled",
    "grouped",
    "int4_weights",
    "ping_pong",
    "pipelined",
    "split_k",
    "stationary",
    "stream_k",
    "warp_specialized",
]
