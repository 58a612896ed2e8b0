"""A second kernel of its own writes on the first rows of A once the product is there: the next side reads them."""

from kernels.honest import compiled, filling

TRICK = 26
RUNS_ON = ("cuda",)
VERDICT = "input_changed wrong_result"
PARENT = "iter000_torch_matmul"
CONFIG = dict(rows=8)


def build(problem):
    kernel, fill = compiled(problem), filling(CONFIG["rows"], problem.dims[2], 1e-38)

    def launch(a, b, out):
        kernel(a, b, out)
        fill(a[: CONFIG["rows"]])

    return launch
