"""It puts a named pipe where the parent reads what it printed, then fails."""

import os

TRICK = 29
RUNS_ON = ("cpu", "cuda")
VERDICT = "load"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


os.unlink("output.txt")
os.mkfifo("output.txt")
raise RuntimeError("now read it")
