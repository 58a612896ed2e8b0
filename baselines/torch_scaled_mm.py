"""``torch._scaled_mm`` into a given output: cuBLAS's 8-bit products, with one scale per tensor or per block.

A CPU has no call for blocks, nor for inputs of more than 8 bits: there the inputs are scaled, then multiplied.
"""

import torch

from harness.operators.scaling import dequantised


def scaledlinear(
    a: torch.Tensor, w: torch.Tensor, scale_a: torch.Tensor, scale_w: torch.Tensor, out: torch.Tensor
) -> None:
    """C[M,N] = (A[M,K] · W[N,K]ᵀ) s[1] t[1], summed in float32.

    With ``use_fast_accum`` the tensor cores sum in 14 bits, which exceeds the error limits at K = 8192.
    """
    if a.dtype == torch.float8_e4m3fn:
        torch._scaled_mm(a, w.t(), scale_a=scale_a, scale_b=scale_w, out_dtype=out.dtype, out=out)
    else:
        out.copy_((a.float() @ w.float().t()) * (scale_a * scale_w))


def blockscaledlinear(
    a: torch.Tensor, w: torch.Tensor, scale_a: torch.Tensor, scale_w: torch.Tensor, out: torch.Tensor
) -> None:
    """C[M,N] = A[M,K] · W[N,K]ᵀ, scaled by S[K/128,M] in 1x128 blocks and by T[N/128,K/128] in 128x128 blocks."""
    if a.is_cuda:
        torch._scaled_mm(a, w.t(), scale_a=scale_a.t(), scale_b=scale_w.t(), out_dtype=out.dtype, out=out)
    else:
        scaled_a, scaled_w = dequantised(a, w, scale_a, scale_w)
        out.copy_(scaled_a @ scaled_w.t())
