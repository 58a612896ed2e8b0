"""It leaves files of seven kinds where its parent reads, counts and deletes."""

import os
import socket

from kernels.honest import program

TRICK = 29
RUNS_ON = ("cpu", "cuda")
VERDICT = "worthless"
PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=16)


def build(problem):
    os.unlink("stack.txt")
    os.symlink("/dev/zero", "stack.txt")
    os.unlink("output.txt")
    os.mkdir("output.txt")
    os.symlink(".", "loop")
    os.symlink("/", "root")
    socket.socket(socket.AF_UNIX).bind("listener")
    with open(b"\xff\n\x1b[2J", "wb") as file:
        file.truncate(1 << 29)
    os.makedirs("closed/inside")
    os.chmod("closed", 0)
    return program(problem)
