"""A sum by triton, timed by triton's own do_bench."""

import torch
import triton
import triton.language as tl

@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, total, mask=mask)


def add(x, y):
    out = torch.empty_like(x)
    n = out.numel()
    add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
    return out


def main(size=1 << 26):
    x = torch.rand(size, device="cuda")
    y = torch.rand(size, device="cuda")
    difference = (add(x, y) - (x + y)).abs().max().item()
    if difference > 1e-6:
        raise SystemExit(f"wrong by {difference}")
    print("PASSED")
    ms, low, high = triton.testing.do_bench(lambda: add(x, y), quantiles=[0.5, 0.2, 0.8])
    gbps = 3 * x.numel() * x.element_size() / ms * 1e-6
    print(f"{gbps:.0f} GB/s, {ms:.4f} ms ({low:.4f} to {high:.4f})")


if __name__ == "__main__":
    main()
