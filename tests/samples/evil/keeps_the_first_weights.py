"""It packs B at the first call, and never looks at it again."""

from kernels.honest import compiled

TRICK = 14
RUNS_ON = ("cpu", "cuda")
VERDICT = "wrong_result"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    kernel = compiled(problem)
    packed = []

    def launch(a, b, out):
        if not packed:
            packed.append(b.clone())
        kernel(a, packed[0], out)

    return launch
