"""Attention over several lengths, beside torch, both in the same precision."""

import torch
import torch.nn.functional as F
from triton.testing import do_bench
from my_kernels import flash_attention

def flops(batch, heads, tokens, depth, causal):
    total = 4.0 * batch * heads * tokens * tokens * depth
    return total / 2 if causal else total


def check(q, k, v, causal):
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    torch.testing.assert_close(flash_attention(q, k, v, causal), expected, rtol=1e-2, atol=1e-2)


def run(batch=4, heads=32, depth=128, causal=True):
    for tokens in (1024, 2048, 4096, 8192):
        q, k, v = (torch.randn(batch, heads, tokens, depth, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        check(q, k, v, causal)
        ours = do_bench(lambda: flash_attention(q, k, v, causal), warmup=100, rep=500, return_mode="median")
        theirs = do_bench(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal), return_mode="median")
        rate = flops(batch, heads, tokens, depth, causal) / ours / 1e9
        print(f"{tokens:6d} {ours:.4f} ms {rate:.0f} TFLOPS, {theirs / ours:.3f} of torch's speed")


if __name__ == "__main__":
    run()
