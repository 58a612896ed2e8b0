"""It tries known seeds, to make the inputs again and look its answer up."""

import torch

TRICK = 21
RUNS_ON = ("cpu", "cuda")
VERDICT = "wrong_result"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    def launch(a, b, out):
        for seed in (0, 1, 42, 1234):
            made = torch.randn(a.shape, generator=torch.Generator(a.device).manual_seed(seed), device=a.device)
            if torch.equal(made.to(a.dtype), a):
                return
        out.zero_()

    return launch
