"""It remembers outputs by the addresses of the inputs."""

from kernels.honest import compiled

TRICK = 11
RUNS_ON = ("cpu", "cuda")
VERDICT = "wrong_result"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)
    known = {}

    def launch(a, b, out):
        key = a.data_ptr(), b.data_ptr()
        if key not in known:
            kernel(a, b, out)
            known[key] = out.clone()
        out.copy_(known[key])

    return launch
