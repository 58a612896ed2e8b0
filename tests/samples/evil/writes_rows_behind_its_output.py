"""A second kernel of its own writes eight rows behind the output, by a view that reaches further."""

from kernels.honest import compiled, filling

TRICK = 24
RUNS_ON = ("cuda",)
VERDICT = "wrong_result input_changed runtime"
PARENT = "iter000_torch_matmul"
CONFIG = dict(rows=8)


def build(problem):
    kernel, fill = compiled(problem), filling(CONFIG["rows"], problem.dims[1], 1)

    def launch(a, b, out):
        kernel(a, b, out)
        fill(out.as_strided((CONFIG["rows"], out.shape[1]), out.stride(), out.storage_offset() + out.numel()))

    return launch
