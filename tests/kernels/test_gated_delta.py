"""The ladder of the gated delta rule for the H200, judged by what its generated text computes on the CPU."""

import runpy
from pathlib import Path
from typing import Any

import pytest

from harness.iteration import Program
from harness.judge.facts.problem import parse_shape_key
from kernels.gated_delta import gated_delta
from tests.harness.operators.launches import Launch, wrong
from tests.kernels.emulation.numbers import emulated, faults
from tests.lanes import few

ROOT = Path(__file__).parents[2]
LADDER = ROOT / "tuning/h200/tilelang/srcs/gateddelta_bf16fp32_1x32x8192x128x128/tilebench"
RUNGS = sorted(path.stem for path in LADDER.glob("iter*.py") if not path.stem.startswith("iter000"))
KEY = "gateddelta_bf16fp32_1x2x128x64x64"
WIDE = "gateddelta_bf16fp32_2x1x128x128x128"


def launch_of(program: Program, key: str, folder: Path, broken: tuple[str, str] | None = None) -> Launch:
    """A launch of one kernel for each block of values, or of two, the first for each chunk."""
    batches, heads, tokens, _, width = parse_shape_key(key).dims
    grids = [(tokens // 64, heads, batches), (width // 64, heads, batches)]
    boxes: dict[str, Any] = dict.fromkeys(("Q", "K", "V", "Out"), ((3, 1, 2, 0), (64, 64, 1, 1)))
    boxes |= dict.fromkeys(("erased", "weights"), ((2, 0, 1), (64, 64, 1)))
    boxes["written"] = (4, 3, 2, 1, 0), (64, 64, 1, 1, 1)
    return emulated(program, grids[0 if program.workspaces else 1 :], boxes, folder, broken)


@pytest.mark.parametrize("rung", few(RUNGS, "iter005_output_group"))
def test_each_rung_computes_outputs_and_state(rung: str, tmp_path: Path) -> None:
    program = runpy.run_path(str(LADDER / f"{rung}.py"))["build"](parse_shape_key(KEY))
    assert wrong(KEY, launch_of(program, KEY, tmp_path)) == set()


@pytest.mark.slow
@pytest.mark.parametrize("output_group", [False, True])
def test_wide_heads_take_two_blocks_of_values(output_group: bool, tmp_path: Path) -> None:
    program = gated_delta(
        parse_shape_key(WIDE), inverse="blocks", specialize=True, output_group=output_group, num_stages=1
    )
    assert wrong(WIDE, launch_of(program, WIDE, tmp_path)) == set()


BROKEN = {
    "nothing waits for a stage": (r"full\[[^;]*\.wait\([^;]*\);", ";"),
    "nothing waits for a free stage": (r"empty\[[^;]*\.wait\([^;]*\);", ";"),
    "the outputs do not wait for the state": (r"told\[[^;]*\.wait\([^;]*\);", ";"),
    "the state does not decay": (r"state\[[^;]*\] = __\d+;|\*\(float[24]\*\)\(state \+[^;]*= __\d+;", ";"),
}


@pytest.mark.parametrize("broken", few(BROKEN, "the outputs do not wait for the state"))
def test_a_mistake_in_the_text_shows_in_the_numbers(broken: str, tmp_path: Path) -> None:
    program = gated_delta(
        parse_shape_key(KEY), inverse="blocks", specialize=True, output_group=True, num_stages=1, slots=1
    )
    assert faults(KEY, launch_of(program, KEY, tmp_path, BROKEN[broken]))


@pytest.mark.parametrize(
    ("key", "levers", "says"),
    [
        (KEY, {"inverse": "newton"}, "inverse='newton'"),
        (KEY, {"specialize": False, "output_group": True}, "output_group=True"),
        (KEY, {"num_stages": 0}, "num_stages=0"),
        (KEY.replace("128", "160"), {}, "160 tokens"),
        (KEY.replace("64x64", "64x32"), {}, "values of 32"),
        (KEY.replace("bf16", "f32"), {}, "float32 inputs"),
        (WIDE, {"num_stages": 4}, "bytes of shared memory"),
    ],
)
def test_what_cannot_work_is_refused(key: str, levers: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        gated_delta(parse_shape_key(key), **{"inverse": "blocks", "specialize": True, "num_stages": 2, **levers})
