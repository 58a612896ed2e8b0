"""torch.utils.benchmark takes the time; a scale of one is a factor, not data."""

import torch
from torch.utils import benchmark
M, N, K = 8192, 8192, 4096


def scaled(x, w, scale):
    return torch._scaled_mm(x, w.t(), scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16)


def main():
    x = torch.randn(M, K, device="cuda").to(torch.float8_e4m3fn)
    w = torch.randn(N, K, device="cuda").to(torch.float8_e4m3fn)
    one = torch.ones((), device="cuda")
    reference = (x.float() @ w.float().t()).bfloat16()
    out = scaled(x, w, one)
    relative_error = (out.float() - reference.float()).norm() / reference.float().norm()
    assert relative_error < 0.01, relative_error
    timer = benchmark.Timer("scaled(x, w, one)", globals={"scaled": scaled, "x": x, "w": w, "one": one})
    found = timer.blocked_autorange(min_run_time=2)
    flops = 2.0 * M * N * K
    print(f"{found.median * 1e3:.4f} ms, {flops / found.median / 1e12:.0f} TFLOPS")


if __name__ == "__main__":
    main()
