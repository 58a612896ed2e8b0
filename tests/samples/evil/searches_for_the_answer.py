"""It looks for the expected output in all objects and frames, and in the memory of its neighbours."""

import gc
import os

import torch

TRICK = 19
RUNS_ON = ("cpu", "cuda")
VERDICT = "wrong_result"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def neighbours():
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                with open(f"/proc/{entry}/mem", "rb") as file, open(f"/proc/{entry}/maps") as maps:
                    file.seek(int(maps.readline().split("-")[0], 16))
                    file.read(16)
                    yield entry
            except OSError:
                continue


def build(problem):
    found = list(neighbours())

    def launch(a, b, out):
        for each in gc.get_objects():
            if type(each) is torch.Tensor and each.shape == out.shape and each is not out and each is not a and each is not b:
                out.copy_(each)
        if found:
            os.kill(int(found[0]), 0)
            out.fill_(1.0)

    return launch
