"""Every operator: its baseline is right by its own trials, and a result that is wrong in one place is not."""

import math
import re
from pathlib import Path

import pytest
import torch

import baselines
from harness.judge.child import trials
from harness.judge.facts.hashes import baseline_module
from harness.judge.facts.problem import Problem, parse_shape_key
from harness.judge.limits import complaint, sketch_limit
from harness.operators import OPERATORS
from tests.harness.checkout import BASELINE, BUDGET, ROOT, Checkout

SIZES = {
    "add": "4096",
    "addscalar": "4096",
    "copy": "48x64",
    "contiguous": "48x64",
    "attention": "1x4x2x64x64x64",
    "causalattention": "1x4x2x64x64x64",
    "blockscaledlinear": "48x160x272",
}
SCALED = ("scaledlinear", "blockscaledlinear")
KEYS = [
    f"{name}_{dtypes}_{SIZES.get(name, '48x64x96')}"
    for name in OPERATORS
    for dtypes in ("f32fp32", "e4m3fp32bf16" if name in SCALED else "bf16fp32")
]


def tensors(problem: Problem, *, exact: bool) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Inputs as the trials draw them, and what the baseline makes of them."""
    dice = torch.Generator().manual_seed(7)
    inputs = [
        trials.random_pool(problem, position, math.prod(shape), dice).view(shape)
        for position, shape in enumerate(problem.inputs)
    ]
    if exact:
        trials.fill_exact(problem, inputs, dice)
    output = torch.full(problem.output_shape, math.nan, dtype=getattr(torch, problem.output))
    baselines.library(problem)(*inputs, output)
    return inputs, output


def verdict(problem: Problem, inputs: list[torch.Tensor], output: torch.Tensor, *, exact: bool) -> str | None:
    expected = trials.reference(problem, inputs)
    if exact:
        return complaint(trials.compare_exact("exact", problem, output, expected))
    return complaint(trials.compare("random", problem, output, expected))


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("key", KEYS)
def test_the_library_passes_and_one_wrong_element_does_not(key: str, exact: bool) -> None:
    problem = parse_shape_key(key)
    inputs, output = tensors(problem, exact=exact)
    assert verdict(problem, inputs, output, exact=exact) is None
    output.view(-1)[17] += 1
    assert verdict(problem, inputs, output, exact=exact) is not None


@pytest.mark.parametrize("key", KEYS)
def test_the_library_passes_the_corners_and_one_wrong_row_does_not(key: str) -> None:
    problem = parse_shape_key(key)
    inputs, output = tensors(problem, exact=False)
    which = trials.fill_corners(problem, inputs, torch.Generator().manual_seed(3))
    assert (which is None) == (OPERATORS[problem.operator].rows == ())
    if which is None:
        return
    baselines.library(problem)(*inputs, output)
    expected = trials.reference(problem, inputs)
    assert complaint(trials.compare_corners(problem, output, expected, which)) is None
    for number, corner in enumerate(trials.CORNERS):
        row = int((which == number).nonzero()[0])
        wrong = output.clone().view(len(which), -1)
        wrong[row] = wrong[row].float().abs() * 2 + 2.0**-30
        found = trials.compare_corners(problem, wrong.view(output.shape), expected, which)
        assert found.name == f"corners ({corner})"
        assert complaint(found) is not None


@pytest.mark.parametrize("key", KEYS)
def test_the_sketch_of_a_right_output_is_within_its_limit_and_that_of_an_old_one_is_not(key: str) -> None:
    problem = parse_shape_key(key)
    inputs, output = tensors(problem, exact=False)
    dice = torch.Generator().manual_seed(1)
    assert float(trials.sketch(problem, inputs, output, dice).max()) <= sketch_limit(problem)
    changed = inputs[-1 if "attention" in key else 0]
    changed.copy_(-changed.float())  # what a kernel that remembers would answer
    assert float(trials.sketch(problem, inputs, output, dice).max()) > sketch_limit(problem)


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_is_a_file_of_its_name_and_has_a_baseline(name: str) -> None:
    assert (ROOT / "harness" / "operators" / f"{name}.py").is_file()
    module = baseline_module(ROOT, name)
    assert module is not None
    problem = parse_shape_key(next(key for key in KEYS if key.startswith(f"{name}_")))
    assert baselines.library(problem).name == module.stem.replace("_", ".", 1)


@pytest.mark.parametrize("key", KEYS)
def test_shapes_and_work_are_positive_and_consistent(key: str) -> None:
    problem = parse_shape_key(key)
    inputs, output = tensors(problem, exact=False)
    assert trials.reference(problem, inputs).shape == output.shape == problem.output_shape
    assert problem.terms >= 1
    assert problem.flops >= 0
    assert problem.bytes == sum(each.nbytes for each in (*inputs, output))


def test_the_operator_that_the_docs_add_is_one(tmp_path: Path) -> None:
    operator, call = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs/how-to/add-an-operator.md").read_text(), re.DOTALL
    )
    checkout = Checkout.create(tmp_path / "checkout")
    try:
        (checkout.root / "harness/operators/scale.py").write_text(operator)
        (checkout.root / "baselines/torch_mul.py").write_text(f"import torch\n\n\n{call}")
        checkout.write("iter000_torch_mul", BASELINE, "scale_f32fp32_4096")
        done = checkout.run("bench", "--gpu", "cpu", *BUDGET)
        assert done.returncode == 0, done.stderr
        ladder = checkout.run("leaderboard", "--all").stdout
        assert "ratio to torch.mul" in ladder and "memory-bound" in ladder
    finally:
        checkout.end()
