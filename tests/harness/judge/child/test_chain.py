"""A chain is right where each launch reads what the one before wrote, and wrong where one ran ahead."""

import math

import pytest
import torch

from harness.judge.child import chain, trials
from harness.judge.facts.problem import Problem, parse_shape_key
from harness.judge.limits import complaint

CHAINED = (
    ("matmul_bf16fp32_64x512x512", 0),
    ("matmul_fp16fp32_64x512x512", 0),
    ("matmul_f32fp32_64x64x64", 0),
    ("linear_bf16fp32_64x512x512", 0),
    ("relumatmul_bf16fp32_64x512x512", 0),
    ("add_f32fp32_1024", 0),
    ("addscalar_f32fp32_1024", 0),
    ("copy_bf16fp32_64x64", 0),
    ("contiguous_f32fp32_64x64", 0),
    ("attention_bf16fp32_1x2x2x64x64x64", 0),
    ("causalattention_fp16fp32_1x2x2x64x64x64", 0),
)


def drawn(problem: Problem) -> list[list[torch.Tensor]]:
    """Inputs of all launches of a chain."""
    dice = torch.Generator().manual_seed(3)
    return [
        [
            trials.random_pool(problem, position, math.prod(shape), dice).view(shape)
            for position, shape in enumerate(problem.inputs)
        ]
        for _ in range(chain.SETS)
    ]


def launched(problem: Problem, inputs: list[torch.Tensor]) -> torch.Tensor:
    return trials.reference(problem, inputs).to(getattr(torch, problem.output))


@pytest.mark.parametrize(("key", "position"), CHAINED)
def test_a_launch_must_read_what_the_one_before_it_wrote(key: str, position: int) -> None:
    problem = parse_shape_key(key)
    assert chain.link(problem) == position
    _, first, second = drawn(problem)
    stale = [*second]
    second[position] = launched(problem, first)
    said = [complaint(trial) for trial in chain.compare(problem, second, launched(problem, second))]
    assert said == [None]
    for early in (stale[position], torch.full_like(stale[position], math.nan)):
        stale[position] = early
        (trial,) = chain.compare(problem, second, launched(problem, stale))
        assert (complaint(trial) or "").startswith("chained trial: ")


@pytest.mark.parametrize("key", ["scaledlinear_e4m3fp32bf16_64x64x64", "matmul_bf16fp32_64x512x256"])
def test_an_output_that_is_no_input_has_no_chain(key: str) -> None:
    assert chain.link(parse_shape_key(key)) is None


def test_the_second_reads_what_the_first_writes_and_writes_where_it_reads() -> None:
    sets = chain.linked(((1, 2, 3), (11, 12, 13), (21, 22, 23)), 1)
    assert sets == ((1, 2, 3), (11, 12, 13), (21, 13, 12))
    assert chain.linked(((1, 3), (11, 13), (21, 23)), 0)[2] == (13, 11)
