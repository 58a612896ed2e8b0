"""The power ceiling: its kernel moves nothing in the loop, and a row says its share of it."""

import msgspec
import pytest

from harness.boards import leaderboard
from harness.boards.power import PowerBound
from harness.catalog import gpus
from harness.catalog.tree import Selection, Tree
from harness.errors import UsageError
from harness.extras.ceiling.kernel import block_flops
from harness.extras.ceiling.measure import line, measure
from harness.machine.progress import Quiet
from harness.records.ceilings import newest
from harness.records.store import append
from tests.harness.boards.test_leaderboard import SHAPE, Ladder
from tests.harness.examples import ENVIRONMENT, ceiling, sustained_record


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_the_loop_multiplies_what_lies_in_shared_memory(dtype: str) -> None:
    import tilelang
    from tilelang import tvm

    from harness.extras.ceiling.kernel import program

    target = tvm.target.Target({"kind": "cuda", "arch": "sm_90a"})
    with target:
        source = tilelang.lower(program(dtype, 2 if dtype == "bfloat16" else 1, 132, 1000), target=target).kernel_source
    _, _, loop = source.partition("step < 1000")
    loop, _, after = loop.partition("warpgroup_wait<0>")
    assert loop.count("wgmma_ss<") == 1  # unrolled over the depth of a stage
    assert ", 64, 256, " in loop  # one WGMMA as wide as the tile for each warp group
    assert "A +" not in loop and "B +" not in loop and "__syncthreads" not in loop
    assert "C +" in after


def test_a_block_multiplies_its_tile_once_a_step() -> None:
    assert block_flops(1, 2) == 2 * 128 * 256 * 64
    assert block_flops(3, 1) == 3 * 2 * 128 * 256 * 128


def test_the_ceiling_of_the_chip_counts_before_that_of_another() -> None:
    here, there = ceiling(855, "GPU-1"), ceiling(861, "GPU-2")
    other = ceiling(700, environment=msgspec.structs.replace(ENVIRONMENT, device="another"))
    chip = msgspec.structs.replace(ENVIRONMENT, device_uuid="GPU-1")
    assert newest([here, there, other], "float32", chip) == here
    assert newest([there, other], "float32", chip) == there
    assert newest([other], "float32", chip) is None
    assert newest([here], "float16", chip) is None


def test_a_sustained_row_says_its_share(tree: Tree) -> None:
    ladder = Ladder(tree)
    append(tree.sustained("cpu", SHAPE, "me"), sustained_record(ladder.measured(1, 1.05, 1.06), 1.04))
    append(tree.ceilings("cpu"), ceiling(850))
    (board,) = leaderboard.boards(tree, "cpu", Selection())[0]
    assert board.rows[0].of_ceiling == pytest.approx(680 / 850)
    assert line(ceiling(850)).startswith("h200 float32: 850 TFLOPS with nothing to move, 690 W at 1775 MHz, 0.812 pJ")


@pytest.mark.parametrize(("chip", "words"), [("", "the power ceiling"), ("GPU-2", "another chip's power ceiling")])
def test_a_share_says_where_the_ceiling_is_another_chips(tree: Tree, chip: str, words: str) -> None:
    ladder = Ladder(tree)
    append(tree.sustained("cpu", SHAPE, "me"), sustained_record(ladder.measured(1, 1.05, 1.06), 1.04))
    append(tree.ceilings("cpu"), ceiling(850, chip))
    (board,) = leaderboard.boards(tree, "cpu", Selection())[0]
    bound = PowerBound.of(board.rows[0])
    assert bound is not None
    assert bound.sentence.startswith(f"power-bound: 80% of {words}; ")


def test_a_processor_has_no_such_ceiling(tree: Tree) -> None:
    with pytest.raises(UsageError, match="made of WGMMA; cpu is c, which has none"):
        measure(tree, gpus.find("cpu"), None, ("bfloat16",), Quiet())
