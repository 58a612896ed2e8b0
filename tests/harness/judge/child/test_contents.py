"""A refresh leaves nothing of what was there: every input is new, every output is poison."""

import random

import pytest
import torch

from harness.judge.child import trials
from harness.judge.child.arena import arena_bytes, create_arena, granule, place
from harness.judge.child.contents import GUARD, Contents
from harness.judge.facts.problem import Problem, parse_shape_key
from harness.judge.limits import sketch_limit

SETS = 6
KEYS = [
    "matmul_f32fp32_32x48x16",
    "matmul_bf16fp32_7x5x3",
    "matmul_fp16fp32_64x64x64",
    "linear_e4m3fp32bf16_33x16x8",
    "matmul_f32fp32_1x1x1",
    "scaledlinear_e4m3fp32bf16_33x16x8",
    "blockscaledlinear_e4m3fp32bf16_33x144x136",
]


def contents(key: str = KEYS[0], seed: int = 0, sets: int = SETS) -> Contents:
    problem = parse_shape_key(key)
    arena = create_arena(arena_bytes(problem, sets, granule(problem, cpu=True)), cpu=True)
    dice = random.Random(seed)
    placement = place(problem, sets, granule(problem, cpu=True), (0, arena.size), dice)
    return Contents(problem, arena, placement, (0, arena.size), torch.Generator().manual_seed(seed), dice)


def inputs(made: Contents) -> list[torch.Tensor]:
    return [tensor.clone() for tensors in made.sets for tensor in tensors[:-1]]


@pytest.mark.parametrize("key", KEYS)
def test_a_refresh_poisons_every_output_and_fills_every_input(key: str) -> None:
    made = contents(key)
    for _ in range(3):
        for tensors in made.sets:
            tensors[-1].zero_()
        made.refresh()
        for *sources, output in made.sets:
            assert output.float().isnan().all()
            assert all(source.float().isfinite().all() for source in sources)


def test_a_refresh_poisons_what_lies_between_the_tensors() -> None:
    made = contents()
    made.refresh()
    inside = sum(tensor.numel() * tensor.element_size() for *sources, _ in made.sets for tensor in sources)
    assert int((made._whole != 0xFF).sum()) <= inside


def test_a_refresh_changes_every_input_of_every_set() -> None:
    made = contents()
    made.refresh()
    for _ in range(5):
        before = inputs(made)
        made.refresh()
        for old, new in zip(before, inputs(made), strict=True):
            assert (old != new).float().mean() > 0.99


def test_no_two_sets_hold_the_same() -> None:
    made = contents()
    made.refresh()
    for position in (0, 1):
        assert len({tuple(tensors[position].view(-1).tolist()) for tensors in made.sets}) == SETS


@pytest.mark.parametrize("key", ["crossentropy_f32fp32_32x512", "softmax_bf16fp32_64x1024"])
def test_no_part_of_an_input_comes_again(key: str) -> None:
    """What a kernel computed of 64 neighbours is of no use for another launch, at whatever place they stood."""
    made = contents(key)
    seen: set[bytes] = set()
    parts = 0
    for _ in range(4):
        made.refresh()
        for values, *_ in made.sets:
            held = values.view(-1, 64).view(torch.uint8)
            seen |= {row.numpy().tobytes() for row in held}
            parts += len(held)
    assert len(seen) == parts


def test_a_sum_of_two_windows_has_the_fill_s_deviation() -> None:
    made = contents("softmax_f32fp32_64x1024")
    made.refresh()
    drawn = torch.cat([values.view(-1) for values, *_ in made.sets])
    assert float(drawn.mean()) == pytest.approx(0, abs=0.02)
    assert float(drawn.std()) == pytest.approx(1, rel=0.02)


def test_another_run_has_other_contents() -> None:
    first, second = contents(seed=1), contents(seed=2)
    first.refresh()
    second.refresh()
    assert all(not torch.equal(old, new) for old, new in zip(inputs(first), inputs(second), strict=True))


def test_exact_contents_are_small_integers_in_every_set() -> None:
    made = contents()
    made.refresh()
    made.fill_exact()
    assert all(set(tensor.view(-1).tolist()) <= {-2, -1, 0, 1, 2} for tensor in inputs(made))
    assert all(tensors[-1].isnan().all() for tensors in made.sets)


@pytest.mark.parametrize("key", KEYS)
def test_a_look_sees_a_change_of_one_bit_in_any_input(key: str) -> None:
    made = contents(key)
    made.refresh()
    kept = made.keep_inputs(2)
    assert made.look(4, 2, kept).inputs_held
    for position in (0, 1):
        last = made.sets[2][position].view(-1).view(torch.uint8)[-1:]
        last ^= 1
        assert not made.look(4, 2, kept).inputs_held
        last ^= 1
        assert made.look(4, 2, kept).inputs_held


def test_inputs_that_are_nan_are_compared_bit_for_bit() -> None:
    made = contents()
    made.refresh()
    made.sets[1][0].fill_(float("nan"))
    assert made.look(1, 1, made.keep_inputs(1)).inputs_held


def test_a_look_holds_copies_of_the_set_it_is_asked_for() -> None:
    made = contents()
    made.refresh()
    made.sets[2][-1].fill_(7)
    kept = made.keep_inputs(2)
    look = made.look(4, 2, kept)
    made.refresh()
    assert look.inputs_held
    assert look.outputs[0].eq(7).all()


def right(made: Contents, problem: Problem, index: int) -> torch.Tensor:
    """The output that a set should have."""
    return trials.reference(problem, made.originals(index)).to(made.sets[index][-1].dtype)


@pytest.mark.parametrize("key", KEYS[:3])
def test_a_look_sees_one_launch_that_wrote_nothing(key: str) -> None:
    made, problem = contents(key), parse_shape_key(key)
    made.refresh()
    for launches in (1, 3):
        assert made.look(launches, None, []).off is None
    for index in range(4):
        made.sets[index][-1].copy_(right(made, problem, index))
    off = made.look(3, None, []).off
    assert off is not None and off <= sketch_limit(problem)
    for index in (3, 0):  # 0 is the lead-in's
        made.sets[index][-1].view(-1)[-1] = float("nan")
        assert made.look(3, None, []).off is None
        made.sets[index][-1].copy_(right(made, problem, index))


def test_every_look_sees_the_lead_in() -> None:
    """However many launches a block has: only the first of them is not timed."""
    made, problem = contents(KEYS[0], sets=33), parse_shape_key(KEYS[0])
    made.refresh()
    for index in range(1, 33):
        made.sets[index][-1].copy_(right(made, problem, index))
    assert all(made.look(32, None, []).off is None for _ in range(10))


@pytest.mark.parametrize("key", KEYS[:3])
def test_a_look_sees_one_wrong_row(key: str) -> None:
    made, problem = contents(key), parse_shape_key(key)
    made.refresh()
    for index in range(4):
        made.sets[index][-1].copy_(right(made, problem, index))
    made.sets[2][-1][-1].zero_()
    off = made.look(3, None, []).off
    assert off is not None and off > sketch_limit(problem)


def test_a_look_is_not_taken_in_by_inputs_that_were_overwritten() -> None:
    made, problem = contents(), parse_shape_key(KEYS[0])
    made.refresh()
    for tensor in (*made.sets[0], *made.sets[1]):
        tensor.zero_()
    off = made.look(1, None, []).off
    assert off is not None and off > sketch_limit(problem)


def test_one_set_is_enough() -> None:
    made = contents(sets=2)
    made.refresh()
    before = inputs(made)
    made.refresh()
    assert all(not torch.equal(old, new) for old, new in zip(before, inputs(made), strict=True))


@pytest.mark.parametrize("dtypes", ["f32fp32", "bf16fp32", "e4m3fp32fp16"])
def test_one_skipped_launch_of_many_is_seen_every_time(dtypes: str) -> None:
    made = contents(f"matmul_{dtypes}_8x8x8", sets=200)
    for skipped in (1, 57, 199):
        made.refresh()
        for number, (a, b, output) in enumerate(made.sets):
            if number != skipped:
                output.copy_(a.float() @ b.float())
        assert made.look(199, None, []).off is None
        made.sets[skipped][-1].copy_(made.sets[skipped][0].float() @ made.sets[skipped][1].float())
        assert made.look(199, None, []).off is not None


def test_a_byte_beside_a_tensor_is_guarded() -> None:
    made = contents()
    made.refresh()
    assert made.guards_held()
    start, _ = max(made._gaps, key=lambda gap: gap[1] - gap[0])
    made._whole[start] = 0
    assert not made.guards_held()
    assert made._overwritten().isnan().all()


@pytest.mark.parametrize("key", ["matmul_bf16fp32_7x5x3", "matmul_f32fp32_1x1x1"])  # their ends are at odd bytes too
def test_each_byte_of_a_gap_is_guarded(key: str) -> None:
    made = contents(key)
    made.refresh()
    for start, end in made._gaps:
        for byte in {*range(start, min(start + 9, end)), *range(max(end - 9, start), end), (start + end) // 2}:
            for value in (0, GUARD - 1):
                made._whole[byte] = value
                assert not made.guards_held()
            made._whole[byte] = GUARD
    assert made.guards_held()


def test_guards_are_the_bytes_of_no_tensor() -> None:
    made = contents()
    made.refresh()
    for tensors in made.sets:
        for each in tensors:
            each.zero_()
    assert made.guards_held()
    assert not made._overwritten().isnan().any()


OF_LENGTHS = "pageddecode_f32fp32_8x2x1x32x4x16"  # queries, keys and values that are random, a page table, lengths


SHARED = [position for position, fill in enumerate(parse_shape_key(OF_LENGTHS).fills) if fill.whole]


def shared(made: Contents) -> list[torch.Tensor]:
    return [made.sets[0][position].clone() for position in SHARED]


def test_all_sets_have_one_draw_of_what_decides_the_work() -> None:
    made = contents(OF_LENGTHS)
    made.refresh()
    assert len(SHARED) == 2
    for position in SHARED:
        assert all(torch.equal(each[position], made.sets[0][position]) for each in made.sets)
    others = set(range(made._inputs)) - set(SHARED)
    assert all(not torch.equal(made.sets[1][position], made.sets[0][position]) for position in others)


def test_the_work_depends_on_the_seed_alone() -> None:
    one, other = contents(OF_LENGTHS, seed=1), contents(OF_LENGTHS, seed=2, sets=2)
    drawn = []
    for seed in (7, 8):
        one.refresh(seed)
        other.refresh(seed)
        assert all(map(torch.equal, shared(one), shared(other)))
        drawn.append(shared(one))
    assert not any(map(torch.equal, *drawn))


def test_without_a_seed_each_refresh_has_other_work() -> None:
    made = contents(OF_LENGTHS)
    made.refresh()
    before = shared(made)
    made.refresh()
    assert not any(map(torch.equal, before, shared(made)))


def test_the_referee_knows_what_the_shared_inputs_were() -> None:
    made = contents(OF_LENGTHS)
    made.refresh()
    for position in SHARED:
        assert torch.equal(made.originals(3)[position], made.sets[3][position])
