"""Every operator: its baseline is right by its own trials, and a result that is wrong in one place is not."""

import itertools
import math
import re
from pathlib import Path

import pytest
import torch

import baselines
from harness import operators
from harness.errors import UsageError
from harness.judge.child import trials
from harness.judge.facts.hashes import baseline_module
from harness.judge.facts.problem import Problem, parse_shape_key
from harness.judge.limits import complaint, sketch_limit
from harness.operators import OPERATORS, UNREADABLE
from tests.harness.checkout import ROOT

SIZES = {
    "add": "4096",
    "addscalar": "4096",
    "copy": "48x64",
    "contiguous": "48x64",
    "attention": "1x4x2x64x64x64",
    "causalattention": "1x4x2x64x64x64",
    "blockscaledlinear": "48x160x272",
    "groupedlinear": "48x64x96x8",
    "int4linear": "48x64x256",
    "pageddecode": "3x4x2x32x4x16",
    "mladecode": "3x4x32x16x4x16",
    "attentionbackward": "1x2x96x32",
    "gateddelta": "2x2x96x32x16",
    "varlenattention": "4x4x2x96x64x32",
    "rmsnorm": "48x64",
    "softmax": "48x64",
    "crossentropy": "48x64",
    "topk": "48x64x8",
}
SCALED = ("scaledlinear", "blockscaledlinear")
KEYS = [
    f"{name}_{dtypes}_{SIZES.get(name, '48x64x96')}"
    for name in OPERATORS
    for dtypes in ("f32fp32", "e4m3fp32bf16" if name in SCALED else "bf16fp32")
]


def tensors(problem: Problem, *, exact: bool) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Inputs as the trials draw them, and what the baseline makes of them."""
    dice = torch.Generator().manual_seed(7)
    inputs = [
        trials.random_pool(problem, position, math.prod(shape), dice).view(shape)
        for position, shape in enumerate(problem.inputs)
    ]
    if exact and not trials.fill_exact(problem, inputs, dice):
        pytest.skip("the operator knows no exact inputs")
    outputs = [torch.empty(shape, dtype=getattr(torch, dtype)) for shape, dtype in problem.outputs]
    trials.poison(outputs)
    baselines.library(problem)(*inputs, *outputs)
    return inputs, outputs


def verdict(problem: Problem, inputs: list[torch.Tensor], outputs: list[torch.Tensor], *, exact: bool) -> str | None:
    found = trials.judged(trials.EXACT if exact else "random", problem, inputs, outputs)
    return next(filter(None, map(complaint, found)), None)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("key", KEYS)
def test_the_library_passes_and_one_wrong_element_does_not(key: str, exact: bool) -> None:
    problem = parse_shape_key(key)
    inputs, outputs = tensors(problem, exact=exact)
    assert verdict(problem, inputs, outputs, exact=exact) is None
    for output in outputs:
        right = output.clone()
        output.view(-1)[17] += 1
        assert verdict(problem, inputs, outputs, exact=exact) is not None
        output.copy_(right)


@pytest.mark.parametrize("key", KEYS)
def test_the_library_passes_the_corners_and_one_wrong_row_does_not(key: str) -> None:
    problem = parse_shape_key(key)
    inputs, outputs = tensors(problem, exact=False)
    which = trials.fill_corners(problem, inputs, torch.Generator().manual_seed(3))
    assert (which is None) == (OPERATORS[problem.operator].rows == ())
    if which is None:
        return
    baselines.library(problem)(*inputs, *outputs)
    assert not any(map(complaint, trials.judged("corners", problem, inputs, outputs, which)))
    floats = [each for each in enumerate(outputs) if each[1].is_floating_point()]
    for (position, output), (number, corner) in itertools.product(floats, enumerate(trials.CORNERS)):
        row = int((which == number).nonzero()[0])
        wrong = output.clone().view(len(which), -1)
        wrong[row] = wrong[row].float().abs() * 2 + 2.0**-30
        given = [*outputs[:position], wrong.view(output.shape), *outputs[position + 1 :]]
        found = trials.judged("corners", problem, inputs, given, which)[position]
        assert found.name.endswith(f"corners ({corner})")
        assert complaint(found) is not None


@pytest.mark.parametrize("key", KEYS)
def test_the_sketch_of_a_right_output_is_within_its_limit_and_that_of_an_old_one_is_not(key: str) -> None:
    problem = parse_shape_key(key)
    inputs, outputs = tensors(problem, exact=False)
    dice = torch.Generator().manual_seed(1)
    assert float(trials.deviation(problem, inputs, outputs, dice).max()) <= sketch_limit(problem)
    names = [*OPERATORS[problem.operator].inputs]
    changed = inputs[names.index("v") if "v" in names else 0]
    changed.copy_(-changed.float())  # what a kernel that remembers would answer
    assert float(trials.deviation(problem, inputs, outputs, dice).max()) > sketch_limit(problem)


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_is_a_file_of_its_name_and_has_a_baseline(name: str) -> None:
    assert (ROOT / "harness" / "operators" / f"{name}.py").is_file()
    module = baseline_module(ROOT, name)
    assert module is not None
    problem = parse_shape_key(next(key for key in KEYS if key.startswith(f"{name}_")))
    assert baselines.library(problem).name == module.stem.replace("_", ".", 1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('"""It lacks a bracket."""\n\nOPERATOR = (\n', ":3: cannot be read: SyntaxError"),
        ('"""It describes nothing."""\n', ": it sets no OPERATOR$"),
    ],
)
def test_an_operator_that_cannot_be_used_is_named_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, says: str
) -> None:
    path = tmp_path / "broken.py"
    path.write_text(text)
    monkeypatch.setattr(operators, "__path__", [*operators.__path__, str(tmp_path)])
    operators._take("broken", path)
    try:
        with pytest.raises(UsageError, match=f"^{re.escape(str(path))}{says}"):
            parse_shape_key("broken_f32fp32_4")
    finally:
        del UNREADABLE["broken"]


@pytest.mark.parametrize("key", KEYS)
def test_shapes_and_work_are_positive_and_consistent(key: str) -> None:
    problem = parse_shape_key(key)
    inputs, outputs = tensors(problem, exact=False)
    for expected, output, (shape, _) in zip(trials.references(problem, inputs), outputs, problem.outputs, strict=True):
        assert expected.shape == output.shape == shape
    assert problem.terms_of(0) >= 1
    assert problem.flops >= 0
    whole = sum(each.nbytes for each in (*inputs, *outputs))
    if OPERATORS[problem.operator].bytes is None:
        assert problem.bytes == whole
    else:
        assert 0 < problem.bytes < whole
