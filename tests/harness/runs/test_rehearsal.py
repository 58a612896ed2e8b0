"""An own operator that does not fit itself is refused with its file and line, before anything runs."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.authoring.repository import init, new_operator
from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.errors import UsageError
from harness.judge.facts.problem import parse_shape_key
from harness.operators import adopt
from harness.runs.rehearsal import complaint, rehearse, smaller, tries
from tests.harness.checkout import ROOT, Checkout, one_line

CPU = gpus.find("cpu")
KEY = "ownnorm_f32fp32_64x256"
RETURNS = "return x * (x.square().mean(dim=-1, keepdim=True) + eps).rsqrt() * weight"
# The operator's text and what replaces it; the file with its line, and what is said.
REFERENCE = {
    "too few": (
        "scale=1.0),\n    }",
        'scale=1.0),\n        "z": Output("M"),\n    }',
        r":9: .* returns \[\(64, 256\)\], and",
    ),
    "another shape": (RETURNS, "return x.T", r":9: .* returns \[\(256, 64\)\], and its outputs are"),
    "nothing": (RETURNS, "pass", r":9: .* its reference returns \[\], and its outputs are"),
    "no tensor": (RETURNS, "return 3", ":9: .*TypeError: 'int' object is not iterable"),
    "an error": (RETURNS, "return x @ weight[:-1]", ":11: in ownnorm_f32fp32_64x256, RuntimeError: size mismatch"),
    "negative": (
        "Normal(1.0)",
        "Normal(-1.0)",
        ": input 'x' of ownnorm_f32fp32_64x256 cannot be filled: .*std >= 0.0",
    ),
}
SIZES = {
    "no number": ("Normal(1.0)", 'Normal("1 // (M - 64)")', "a size of .* cannot be computed: ZeroDivisionError"),
    "no scale": ("scale=1.0", 'scale="M - 64"', "scale and terms of output 'y' are not above 0 in"),
    "no terms": ('terms="N"', 'terms="N - 256"', "scale and terms of output 'y' are not above 0 in"),
}


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Path]:
    """A new operator of a repository of one's own, which is right until a test changes it."""
    init(tmp_path)
    yield new_operator(tmp_path, "ownnorm")[0]
    adopt(ROOT)


def changed(operator: Path, old: str, new: str) -> None:
    text = operator.read_text()
    assert old in text
    operator.write_text(text.replace(old, new))
    adopt(operator.parents[1])


def test_the_example_fits(operator: Path) -> None:
    root = operator.parents[1]
    adopt(root)
    assert complaint(root, CPU, parse_shape_key(KEY)) is None


@pytest.mark.parametrize("mistake", REFERENCE)
def test_a_wrong_reference_or_fill_is_named(operator: Path, mistake: str) -> None:
    old, new, says = REFERENCE[mistake]
    changed(operator, old, new)
    said = complaint(operator.parents[1], CPU, parse_shape_key(KEY))
    assert said is not None and "\n" not in said
    assert re.match(f"{re.escape(str(operator))}{says}", said), said


@pytest.mark.parametrize("mistake", SIZES)
def test_a_size_that_cannot_be_is_named(operator: Path, mistake: str) -> None:
    old, new, says = SIZES[mistake]
    changed(operator, old, new)
    with pytest.raises(UsageError, match=f"^{re.escape(str(operator))}: {says}"):
        rehearse(Tree(operator.parents[1]), CPU, parse_shape_key(KEY))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("weight, eps)", "weight, eps)[0]", r":\d+: in {} the baseline returns \['float32\[256\]'\], and the"),
        ("weight, eps)", "weight, eps).double()", r":\d+: in {} the baseline returns \['float64\[64, 256\]'\], and"),
        (
            "weight, eps)",
            "weight, eps) * 1.01",
            r":\d+: in {} the baseline is not what ownnorm.py's reference gives: random",
        ),
        ("weight, eps)", "weight, eps", r":\d+: cannot be read: SyntaxError"),
        ("def ownnorm(", "def norm(", r": no module has a function 'ownnorm'; add one"),
        ("import torch", "import torchh", r":\d+: in {}, ModuleNotFoundError"),
    ],
)
def test_a_wrong_baseline_is_named_where_it_can_run(operator: Path, old: str, new: str, says: str) -> None:
    root = operator.parents[1]
    baseline = root / "baselines" / "torch_ownnorm.py"
    changed(baseline, old, new)
    said = complaint(root, CPU, parse_shape_key(KEY))
    place = baseline.parent if "no module" in says else baseline
    assert said is not None and re.match(f"{re.escape(str(place))}{says.format(KEY)}", said), said
    assert complaint(root, gpus.find("h200"), parse_shape_key(KEY)) is None


@pytest.mark.parametrize(
    ("parameter", "body", "says"),
    [
        ("y", "y[:] = {}", None),
        ("y", "y[:] = 1.01 * {}", "the baseline is not what ownnorm.py's reference gives: random trial"),
        ("x", "return {}", "'y' is written in place of 'x'; name the baseline's parameter 'y'"),
    ],
)
def test_a_baseline_writes_an_output_in_place(operator: Path, parameter: str, body: str, says: str | None) -> None:
    root = operator.parents[1]
    baseline = root / "baselines" / "torch_ownnorm.py"
    changed(operator, 'Output("M, N"', 'Output(inplace="x"')
    call = body.format(f"torch.nn.functional.rms_norm({parameter}, {parameter}.shape[-1:], weight, eps)")
    baseline.write_text(f"import torch\n\ndef ownnorm({parameter}, weight, *, eps):\n    {call}\n")
    adopt(root)
    said = complaint(root, CPU, parse_shape_key(KEY))
    assert said is None if says is None else said and re.search(f"^{re.escape(str(baseline))}:3: .*{says}", said), said
    on_gpu = complaint(root, gpus.find("h200"), parse_shape_key(KEY))
    assert on_gpu == (said if parameter == "x" else None)  # what shows without a call


def test_two_baselines_of_an_operator_are_named(operator: Path) -> None:
    root = operator.parents[1]
    own = root / "baselines" / "torch_ownnorm.py"
    other = own.with_name("torch_other.py")
    other.write_bytes(own.read_bytes())
    adopt(root)
    said = f"{own}: {other} has a function 'ownnorm' too; keep one of the two"
    assert complaint(root, gpus.find("h200"), parse_shape_key(KEY)) == said


def test_a_shipped_operator_is_not_rehearsed(tmp_path: Path) -> None:
    rehearse(Tree(tmp_path), CPU, parse_shape_key("matmul_f32fp32_32x32x32"))  # no forkserver is there


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("matmul_bf16fp32_8192x8192x4096", "matmul_bf16fp32_128x128x128"),
        ("attention_bf16fp32_1x32x8x4096x128x128", "attention_bf16fp32_1x32x8x32x32x16"),
        ("matmul_f32fp32_32x32x32", "matmul_f32fp32_32x32x32"),
    ],
)
def test_a_large_problem_is_rehearsed_in_small(key: str, found: str) -> None:
    assert smaller(parse_shape_key(key)).shape_key == found


def test_what_cannot_be_small_is_rehearsed_on_the_gpu_at_once(operator: Path) -> None:
    key, size = f"ownnorm_f32fp32_64x{2**20}", "    outputs={"
    changed(operator, size, f'    requires=("M == 64",),\n{size}')
    large = parse_shape_key(key)
    assert list(tries(large, "cuda")) == [(smaller(large), "cpu"), (large, "cuda")]
    changed(operator, '"M == 64"', f'"M == 64", "N == {2**20}"')
    fixed = parse_shape_key(key)
    assert list(tries(fixed, "cuda")) == [(fixed, "cuda")]
    assert list(tries(fixed, "cpu")) == [(fixed, "cpu"), (fixed, "cpu")]


def told(checkout: Checkout, operator: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What a command says in the operator's repository."""
    root = operator.parents[1]
    command = checkout.command(*words, "--gpu", "cpu")
    environment = checkout.environment() | {"TILEBENCH_ROOT": str(root)}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_nothing_runs_and_nothing_is_recorded(checkout: Checkout, operator: Path) -> None:
    changed(operator, RETURNS, "return x.T")
    assert told(checkout, operator, "new", "--shape", KEY, "--model", "me").returncode == 0
    done = told(checkout, operator, "bench", "--shape", KEY)
    assert done.returncode == 2
    assert f"{operator}:9: in {KEY}" in one_line(done.stderr)
    assert not list(operator.parents[1].rglob("results.jsonl"))


@pytest.mark.slow
def test_the_other_problems_go_on(checkout: Checkout, operator: Path) -> None:
    other = "add_f32fp32_4096"
    changed(operator, RETURNS, "return x.T")
    for key in (KEY, other):
        assert told(checkout, operator, "new", "--shape", key, "--model", "me").returncode == 0
    done = told(checkout, operator, "verify", "--model", "me", "--iter", "0")
    assert done.returncode == 2, done.stderr
    assert f"rejected  {operator}:9: in {KEY}" in done.stderr and f"passed    {other} me iter000" in done.stderr
    assert [path.parts[-3] for path in operator.parents[1].rglob("results.jsonl")] == [other]
