"""Drawn problems: what the front's model is fitted to and, by other seeds, checked on.

`python -m kernels.front.draws SEED COUNT [NAME …]` prints them as jobs for `kernels.front.measure`: the front's default
beside the library. With names of candidates: products alone, with the two of them that fit the waves best.
"""

import json
import random
import sys
from typing import Final

from harness.judge.facts.problem import Problem
from kernels.front.candidates import CANDIDATES
from kernels.front.fit import LEAST
from kernels.front.model import fill, library_fill, pitch_class
from kernels.hopper import NUM_SMS

# (N, K) of the projections in public language models: q, k and v; output; gate and up; down.
LAYERS: Final = (
    *((2304, 768), (768, 768), (3072, 768), (768, 3072)),
    *((3072, 1024), (1024, 1024), (4096, 1024), (1024, 4096)),
    *((1280, 1280), (10240, 1280), (1280, 5120), (5120, 1280)),
    *((3072, 2048), (2048, 2048), (16384, 2048), (2048, 8192)),
    *((5120, 3072), (3072, 3072), (16384, 3072), (3072, 8192)),
    *((6144, 2560), (2560, 4096), (19456, 2560), (2560, 9728)),
    *((4608, 3584), (3584, 3584), (37888, 3584), (3584, 18944)),
    *((8192, 3584), (3584, 4096), (28672, 3584), (3584, 14336)),
    *((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)),
    *((8192, 4608), (4608, 4096), (4608, 36864), (9216, 3072)),
    *((7168, 5120), (5120, 5120), (27648, 5120), (5120, 13824)),
    *((1536, 7168), (24576, 1536), (32768, 512), (7168, 16384)),
    *((4096, 7168), (7168, 2048), (36864, 7168), (7168, 18432)),
    *((10240, 8192), (8192, 8192), (57344, 8192), (8192, 28672)),
)
ROWS: Final = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1000, 1024, 1536, 2048, 3000, 4096, 6144, 8192, 16384)
ROWS_MAX: Final = 16384
MANY_ROWS: Final = 1024  # half of the draws have so many, or more
PITCH_UNITS: Final = (8, 16, 32, 64, 128, 256)  # elements of 2 bytes; 8 are the least that TMA takes
WIDTHS: Final = ((64, 64), (96, 96), (128, 128), (192, 128), (256, 256))  # of heads: Q and K, and V
HEADS: Final = (8, 12, 16, 24, 32, 40)
TOKENS: Final = (256, 384, 512, 1024, 2048, 4096, 8192)
TOKENS_MAX: Final = 40_000  # of a batch
SIDES: Final = (128, 16384)  # of N and K where they are free
FLOPS_MAX: Final = 1 << 43  # some 13 ms
CANDIDATES_AT_ONCE: Final = 2  # of a product; each is compiled for it


def draw(seed: int, count: int) -> list[Problem]:
    """So many different products: three of five a layer of a language model, the others of any pitch."""
    generator, drawn = random.Random(seed), dict[Problem, None]()
    while len(drawn) < count:
        problem = (_layer if generator.random() < 0.6 else _free)(generator)
        if problem.flops <= FLOPS_MAX:
            drawn[problem] = None
    return list(drawn)


def draw_attention(seed: int, count: int) -> list[Problem]:
    """So many different attentions, from 256 tokens on, most of a length that no tile divides."""
    generator, drawn = random.Random(seed), dict[Problem, None]()
    while len(drawn) < count:
        batch, heads = generator.choice((1, 2, 4, 8, 16)), generator.choice(HEADS)
        shared = heads // generator.choice((1, 1, 2, 4))
        any_length = round(_between(generator, min(TOKENS), 2 * max(TOKENS)))
        tokens = generator.choice(TOKENS) if generator.random() < 0.4 else any_length
        operator = generator.choice(("attention", "causalattention"))
        if batch * tokens <= TOKENS_MAX:
            dims = (batch, heads, shared, tokens, *generator.choice(WIDTHS))
            drawn[_problem(generator, operator, dims)] = None
    return list(drawn)


def _layer(generator: random.Random) -> Problem:
    columns, depth = generator.choice(LAYERS)
    many = generator.random() < 0.5
    usual = [rows for rows in ROWS if (rows >= MANY_ROWS) == many]
    rows = generator.choice(usual) if generator.random() < 0.5 else _any_rows(generator, many)
    return _problem(generator, "linear", (rows, columns, depth))


def _free(generator: random.Random) -> Problem:
    rows = _any_rows(generator, generator.random() < 0.5)
    columns, depth = (_multiple(generator, generator.choice(PITCH_UNITS)) for _ in range(2))
    return _problem(generator, generator.choice(("matmul", "linear")), (rows, columns, depth))


def _problem(generator: random.Random, operator: str, dims: tuple[int, ...]) -> Problem:
    dtype = generator.choices(("bfloat16", "float16"), (4, 1))[0]
    return Problem(operator, dtype, "float32", dtype, dims)


def _any_rows(generator: random.Random, many: bool) -> int:
    return round(_between(generator, *((MANY_ROWS, ROWS_MAX) if many else (1, MANY_ROWS - 1))))


def _multiple(generator: random.Random, unit: int) -> int:
    return max(1, round(_between(generator, *SIDES) / unit)) * unit


def _between(generator: random.Random, low: int, high: int) -> float:
    """Uniform in the logarithm."""
    return float(low * (high / low) ** generator.random())


def fitting(problem: Problem, names: list[str]) -> list[str]:
    """The candidates that fit the waves of a product best; none where the model would not ask for them.

    Drawn products with unaligned pitches are too few for a line of each candidate.
    """
    rows, columns, depth = problem.dims
    able = [
        name
        for name in names
        if rows >= LEAST["rows"]
        and depth >= LEAST["K"]
        and pitch_class(problem) == "aligned"
        and CANDIDATES[name].takes(problem)
        and fill(CANDIDATES[name], problem, NUM_SMS) >= LEAST["fill"]
    ]
    fits = {name: library_fill(CANDIDATES[name].shape[::-1], rows, columns, NUM_SMS) for name in able}
    return sorted(able, key=lambda name: -fits[name])[:CANDIDATES_AT_ONCE]


def main(arguments: list[str]) -> None:
    seed, count, names = int(arguments[0]), int(arguments[1]), arguments[2:]
    products = draw(seed, count)
    if names:
        jobs = [(problem, found) for problem in products if (found := fitting(problem, names))]
    else:
        jobs = [(problem, ["default"]) for problem in (*products, *draw_attention(seed, count // 5))]
    for problem, candidates in jobs:
        print(json.dumps({"key": problem.shape_key, "candidates": candidates}))


if __name__ == "__main__":
    main(sys.argv[1:])
