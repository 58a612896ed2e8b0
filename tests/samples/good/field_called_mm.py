"""A field of its own has the name of a library call."""

from dataclasses import dataclass

from kernels.honest import program

PARENT = "iter000_torch_matmul"
CONFIG = dict(mm=16)


@dataclass
class Tiles:
    mm: int


def build(problem):
    tiles = Tiles(CONFIG["mm"])
    if problem.dims[0] < tiles.mm:
        raise ValueError(f"the problem has fewer than {tiles.mm} rows")
    return program(problem)
