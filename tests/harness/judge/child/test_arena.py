"""Every tensor has a place of its own, inside the arena, drawn anew; and both sides see the same memory."""

import itertools
import math
import multiprocessing
import os
import random
from multiprocessing.connection import Connection

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.judge.child.arena import (
    PAGE,
    HostArena,
    arena_bytes,
    create_arena,
    draw_span,
    granule,
    place,
    receive_arena,
    set_bytes,
)
from harness.judge.facts.problem import DTYPE_BYTES, DTYPES, Problem, parse_shape_key

problems = st.builds(
    Problem,
    operator=st.sampled_from(["matmul", "linear"]),
    input=st.sampled_from(sorted(DTYPES.values())),
    accumulator=st.just("float32"),
    output=st.sampled_from(sorted(DTYPES.values())),
    dims=st.tuples(*[st.integers(1, 2000)] * 3),
)
SMALL = parse_shape_key("matmul_f32fp32_32x48x16")
LARGE = parse_shape_key("matmul_bf16fp32_1024x1024x1024")


def unit(problem: Problem) -> int:
    return granule(problem, cpu=False)


def spans(problem: Problem, placement: tuple[tuple[int, ...], ...]) -> list[tuple[int, int]]:
    return sorted(
        (offset, offset + math.prod(shape) * DTYPE_BYTES[dtype])
        for offsets in placement
        for offset, (shape, dtype) in zip(offsets, problem.tensors, strict=True)
    )


@given(problems, st.integers(1, 40), st.integers(0, 1 << 32))
def test_placements_never_overlap_and_stay_in_bounds(problem: Problem, sets: int, seed: int) -> None:
    size = arena_bytes(problem, sets, unit(problem))
    placement = place(problem, sets, unit(problem), (0, size), random.Random(seed))
    assert len(placement) == sets
    found = spans(problem, placement)
    assert found[0][0] >= 0
    assert found[-1][1] <= size
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(found))
    assert all(start % unit(problem) == 0 for start, _ in found)


@given(problems, st.integers(1, 40), st.integers(1, 40))
def test_a_larger_arena_takes_fewer_sets_too(problem: Problem, sets: int, fewer: int) -> None:
    size = arena_bytes(problem, max(sets, fewer), unit(problem))
    found = spans(problem, place(problem, min(sets, fewer), unit(problem), (0, size), random.Random(0)))
    assert found[-1][1] <= size


@given(problems, st.integers(1, 40))
def test_an_arena_is_whole_pages(problem: Problem, sets: int) -> None:
    assert arena_bytes(problem, sets, unit(problem)) % PAGE == 0


@given(problems)
def test_a_set_takes_its_tensors_and_less_than_a_granule_more_for_each(problem: Problem) -> None:
    assert 0 <= set_bytes(problem, unit(problem)) - problem.bytes < len(problem.tensors) * unit(problem)


@pytest.mark.parametrize("sets", [1, 4])
@pytest.mark.parametrize("problem", [SMALL, LARGE], ids=str)
def test_a_placement_is_drawn_anew(problem: Problem, sets: int) -> None:
    dice = random.Random(0)
    drawn = [
        place(problem, sets, unit(problem), (0, arena_bytes(problem, sets, unit(problem))), dice) for _ in range(50)
    ]
    assert len(set(drawn)) >= 49
    orders = {tuple(sorted(range(3), key=offsets[0].__getitem__)) for offsets in drawn}
    assert len(orders) == 6  # every order of A, B and C


def test_tensors_are_where_they_were_placed() -> None:
    arena = create_arena(arena_bytes(SMALL, 3, unit(SMALL)), cpu=True)
    placement = place(SMALL, 3, unit(SMALL), (0, arena.size), random.Random(0))
    sets = arena.sets(SMALL, placement)
    whole = arena.tensor(0, (arena.size,), "uint8")
    for offsets, tensors in zip(placement, sets, strict=True):
        for offset, tensor, (shape, dtype) in zip(offsets, tensors, SMALL.tensors, strict=True):
            assert tensor.data_ptr() == whole.data_ptr() + offset
            assert (tuple(tensor.shape), tensor.dtype) == (shape, getattr(torch, dtype))
            assert tensor.is_contiguous()


def test_a_tensor_outside_the_arena_is_refused() -> None:
    arena = create_arena(4096, cpu=True)
    with pytest.raises((ValueError, RuntimeError)):
        arena.tensor(4096 - 8, (3,), "float32")


def test_the_other_side_cannot_shrink_or_grow_the_memory() -> None:
    arena = HostArena.create(4096)
    for size in (0, 8192):
        with pytest.raises(PermissionError):
            os.ftruncate(arena.descriptor, size)


def double(connection: Connection) -> None:
    arena = receive_arena(connection, cpu=True)
    connection.recv_bytes()
    arena.tensor(512, (4,), "float32").mul_(2)
    connection.send_bytes(b"done")


def test_both_sides_see_the_same_memory() -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    other = context.Process(target=double, args=(theirs,), daemon=True)
    other.start()
    arena = create_arena(4096, cpu=True)
    assert other.pid is not None
    arena.send(ours, other.pid)
    tensor = arena.tensor(512, (4,), "float32")
    tensor.fill_(21)
    ours.send_bytes(b"go")
    assert ours.poll(60)
    assert tensor.tolist() == [42] * 4
    other.join()


@given(st.integers(1, 6), st.integers(0, 2**32))
def test_a_span_lies_in_the_arena_and_holds_its_sets(sets: int, seed: int) -> None:
    dice = random.Random(seed)
    size = arena_bytes(SMALL, 6, unit(SMALL))
    start, end = draw_span(SMALL, sets, unit(SMALL), size, dice)
    assert 0 <= start < end <= size
    placement = place(SMALL, sets, unit(SMALL), (start, end), dice)
    assert all(start <= first and last <= end for first, last in spans(SMALL, placement))
