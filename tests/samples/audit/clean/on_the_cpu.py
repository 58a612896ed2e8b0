"""numpy against a compiled loop on the CPU, where a call returns when it is done."""

import ctypes
import time

import numpy as np
N = 1 << 25
library = ctypes.CDLL("./libsum.so")


def compiled(x, y, out):
    library.add(x.ctypes.data, y.ctypes.data, out.ctypes.data, x.size)


def median_ms(function, repeats=31):
    function()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter_ns()
        function()
        times.append((time.perf_counter_ns() - begin) / 1e6)
    return float(np.median(times))


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, N), dtype=np.float32)
    out = np.zeros_like(x)
    compiled(x, y, out)
    np.testing.assert_allclose(out, x + y, rtol=1e-6)
    print("all results match")
    print(f"compiled {median_ms(lambda: compiled(x, y, out)):.3f} ms, numpy {median_ms(lambda: np.add(x, y)):.3f} ms")
