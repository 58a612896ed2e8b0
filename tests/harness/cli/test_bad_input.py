"""Bad input: each is one line with its cause, and the good iterations between are judged as if it were not there."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.judge.facts.device_rules import CPU_RULES
from tests.harness.checkout import BUDGET, MODEL, NEITHER_CHILD_NOR_TORCH, SAMPLES, SHAPE, Checkout
from tests.harness.envelopes import answer, envelope

UNWRITTEN = "random trial: the output holds values that are not finite"
# Sample -> status, stage, cause, and what the reason must say.
BAD = {
    "syntax_error": ("rejected", "contract", "contract", r"the file does not parse: '\(' was never closed"),
    "missing_parent": ("rejected", "contract", "contract", "PARENT 'iter042_gone' is not another iteration"),
    "forbidden_call": ("rejected", "contract", "contract", "'torch.matmul' calls the library"),
    "forbidden_import": ("rejected", "contract", "contract", "import of 'os' is not allowed"),
    "unpinned_parameter": ("rejected", "contract", "contract", "'block_M' is not a literal; pin it"),
    "import_fails": ("failed", "build", "load", "ImportError: cannot import name 'no_such_family'"),
    "raises_at_import": ("failed", "build", "load", "IndexError: list index out of range"),
    "hangs_at_import": ("failed", "build", "timeout", "did not answer within 4 s"),
    "raises_in_build": ("failed", "build", "compile", "ValueError: block_M=5 does not divide M=32"),
    "returns_nothing": ("failed", "build", "compile", r"build\(\) returned NoneType; it must return"),
    "does_not_compile": ("failed", "build", "compile", "undefined symbol: no_such_function"),
    "fails_at_first_call": ("failed", "verify", "compile", "undefined symbol: no_such_function"),
    "bad_flag": ("failed", "build", "compile", "error: .*no-such-flag"),
    "other_problem": ("rejected", "build", "wrong_problem", r"parameter 1 of the kernel, a, is float32\[16,32\]"),
    "other_dtype": ("rejected", "build", "wrong_problem", r"parameter 1 of the kernel, a, is float64\[32,32\], matmul"),
    "hangs_in_build": ("failed", "build", "timeout", "did not answer within 4 s"),
    "exits_in_build": ("failed", "build", "crash", "exited with code 0"),
    "killed_in_build": ("failed", "build", "crash", "killed by SIGSEGV"),
    "fills_its_scratch": ("failed", "build", "out_of_disk", "made more than 10,000 files"),
    "takes_all_memory": ("failed", "build", "out_of_memory", "took more than 1536 MiB of memory"),
    "drops_one_k": ("rejected", "verify", "wrong_result", "random trial: max_abs_err="),
    "writes_part": ("rejected", "verify", "wrong_result", UNWRITTEN),
    "writes_nothing": ("rejected", "verify", "wrong_result", UNWRITTEN),
    "writes_nan": ("rejected", "verify", "wrong_result", UNWRITTEN),
    "changes_its_inputs": ("rejected", "verify", "input_changed", "the inputs are not what they were"),
    "raises_in_launch": ("failed", "verify", "runtime", "RuntimeError: not today"),
    "hangs_in_launch": ("failed", "verify", "timeout", "no answer within 8 s"),
    "segfault_in_launch": ("failed", "verify", "crash", "killed by SIGSEGV"),
    "hangs_when_timed": ("failed", "bench", "timeout", "no answer within 8 s"),
    "aborts_in_launch": ("failed", "verify", "crash", "killed by SIGABRT"),
    "exits_in_launch": ("failed", "verify", "crash", "exited with code 3"),
    "takes_all_memory_in_launch": ("failed", "verify", "out_of_memory", "took more than 1536 MiB of memory"),
}  # fmt: skip
# Sample -> the line that its reason shows; for the others the kernel, which no line of theirs is to blame more for.
KERNEL = "def kernel("
LINES: dict[str, str | tuple[str, ...]] = {
    "syntax_error": "def build(problem:",
    "missing_parent": 'PARENT = "iter042_gone"',
    "forbidden_call": "return lambda a, b, out: torch.matmul(a, b, out=out)",
    "forbidden_import": "import os",
    "unpinned_parameter": "CONFIG = dict(block_M=min(16, 32), block_N=16, block_K=16)",
    "import_fails": "from kernels.cpu import no_such_family",
    "raises_at_import": "print([][0])",
    "hangs_at_import": ("while True:", "pass"),
    "raises_in_build": "return scalar_gemm(problem, block_M=5, block_N=16, block_K=16)",
    "returns_nothing": "return None",
    "does_not_compile": 'C[i, j] = T.call_extern("float32", "no_such_function", A[i, 0])',
    "fails_at_first_call": 'C[i, j] = T.call_extern("float32", "no_such_function", A[i, 0])',
    "bad_flag": "return scalar_gemm(problem, block_M=16, block_N=16",
    "hangs_in_build": ("while True:", "pass"),
    "exits_in_build": "return compiled",  # no stack is left
    "killed_in_build": "compiled(*(torch.zeros(shape) for shape, _ in problem.tensors))",
    "fills_its_scratch": 'torch.save(number, f"{number}.pt")',
    "takes_all_memory": 'hoard.append(b"x" * (64 << 20))',
    "writes_nothing": "return lambda a, b, out: None",
    "raises_in_launch": 'raise RuntimeError("not today")',
    "hangs_when_timed": ("while len(calls) > 40:", "pass"),
    "takes_all_memory_in_launch": 'hoard.append(b"x" * (64 << 20))',
}
GOOD = sorted(path.stem for path in (SAMPLES / "good").glob("*.py") if path.stem != "torch_matmul")
MISPLACED = {
    f"srcs/{SHAPE}/{MODEL}/iteration_1.py": "the file name is not iter<NNN>_<tag>.py",
    f"srcs/matmul_int7fp32_32x32x32/{MODEL}/iter001_idea.py": "unknown dtypes 'int7fp32'",
    f"srcs/convolution_f32fp32_32x32x32/{MODEL}/iter001_idea.py": "unknown operator 'convolution'",
}
# What hangs has a run of its own with this deadline: a busy machine keeps the others from no deadline of minutes.
HANGS = {
    "hangs_at_import": ("--build-deadline", "4"),
    "hangs_in_build": ("--build-deadline", "4"),
    "hangs_in_launch": ("--deadline", "8"),
    "hangs_when_timed": ("--deadline", "8"),
}
SETTINGS = "import harness.judge.processes; harness.judge.processes.memory_limit_bytes = lambda builders=1: 1536 << 20"


def number_of(name: str) -> int:
    """The good ones stand between the bad ones."""
    step = len(BAD) // len(GOOD)
    return 2 * list(BAD).index(name) + 2 if name in BAD else 2 * step * GOOD.index(name) + 1


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    made = Checkout.create(tmp_path_factory.mktemp("bad") / "checkout").kept_warm()
    made.write("iter000_torch_matmul", (SAMPLES / "good/torch_matmul.py").read_text())
    for folder, names in (("bad", list(BAD)), ("good", GOOD)):
        for name in names:
            made.write(f"iter{number_of(name):03d}_{name}", (SAMPLES / folder / f"{name}.py").read_text())
    for place in MISPLACED:
        path = made.tree.folder("cpu") / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((SAMPLES / "good/family.py").read_text())
    yield made
    made.end()


@pytest.fixture(scope="module")
def done(checkout: Checkout) -> subprocess.CompletedProcess[str]:
    """One run over all of them, after those that hang."""
    for name, deadline in HANGS.items():
        checkout.run("bench", "--iter", str(number_of(name)), *BUDGET, *deadline)
    return checkout.run("bench", "--json", *BUDGET, settings=SETTINGS)


@pytest.fixture(scope="module")
def outcomes(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    return {record["iteration"].partition("_")[2]: record for record in answer(done.stdout)["records"]}


def test_every_sample_has_its_case() -> None:
    assert set(BAD) == {path.stem for path in (SAMPLES / "bad").glob("*.py")}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_iteration_has_its_outcome_and_a_reason_in_one_line(
    checkout: Checkout, outcomes: dict[str, Any], name: str
) -> None:
    status, stage, cause, says = BAD[name]
    found = outcomes[name]
    assert (found["status"], found["stage"], found["cause"]) == (status, stage, cause), found["reason"]
    assert re.search(says, found["reason"])
    shown = re.search(rf", at {found['iteration']}\.py:(\d+): (.+)", found["reason"])
    assert shown
    source = (checkout.folder() / f"{found['iteration']}.py").read_text().splitlines()
    assert shown[2].startswith(source[int(shown[1]) - 1].strip()[:40])
    assert shown[2].startswith(LINES.get(name, KERNEL))
    assert "\n" not in found["reason"]
    assert "Traceback" not in found["reason"]
    assert len(found["reason"]) < 500


@pytest.mark.parametrize("name", ["torch_matmul", *GOOD])
def test_a_good_iteration_between_them_passes(outcomes: dict[str, Any], name: str) -> None:
    found = outcomes[name]
    assert found["status"] == "passed", found["reason"]
    random, exact, refreshed, corners, *chain, timed = (trial["name"] for trial in found["verification"])
    assert (random, exact, refreshed, timed) == ("random", "exact", "refreshed", "timed")
    assert chain == ["overwritten", "chained"]
    assert corners.startswith("corners (")
    assert found["measurement"]["launches"] * found["measurement"]["rounds"] >= CPU_RULES.min_launches


def test_a_path_that_says_nothing_is_a_usage_error_in_one_line(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 2
    reasons = envelope(done.stdout)["problems"]
    for place, says in MISPLACED.items():
        (reason,) = (reason for reason in reasons if place in reason)
        assert says in reason
        assert "\n" not in reason


def test_everything_is_said_on_stderr_a_line_each_without_a_traceback(done: subprocess.CompletedProcess[str]) -> None:
    lines = done.stderr.splitlines()
    assert not any("Traceback" in line for line in lines)
    for name in BAD:
        assert sum(f"_{name}: " in line for line in lines) == 1, name
    for place in MISPLACED:
        assert sum(place in line for line in lines) == 1, place


def test_every_outcome_is_recorded_once(checkout: Checkout, outcomes: dict[str, Any]) -> None:
    recorded = [record.iteration.partition("_")[2] for record in checkout.records()]
    assert sorted(recorded) == sorted(outcomes) == sorted([*BAD, *GOOD, "torch_matmul"])


@pytest.mark.usefixtures("outcomes")
def test_nothing_is_left_behind(checkout: Checkout) -> None:
    assert checkout.processes() == []
    assert checkout.leftovers() == []


@pytest.mark.usefixtures("outcomes")
def test_failures_are_rows_below_the_ranked_ones(checkout: Checkout) -> None:
    rows = answer(checkout.run("leaderboard", "--json").stdout)
    ranked = [row["rank"] is not None for row in rows]
    assert ranked == sorted(ranked, reverse=True)
    assert sum(ranked) == len(GOOD) + 1
    assert all(row["reason"] for row in rows if row["rank"] is None)


@pytest.mark.usefixtures("outcomes")
def test_a_traceback_is_shown_where_it_is_asked_for(checkout: Checkout) -> None:
    number = str(number_of("raises_in_build"))
    for option in ((), ("--traceback",)):
        shown = checkout.run("build", "--iter", number, *option).stderr
        assert ("operands.require_whole(dimension, block)" in shown) is bool(option)


@pytest.mark.usefixtures("outcomes")
def test_what_failed_is_not_run_again_while_nothing_changes(checkout: Checkout) -> None:
    again = checkout.run("bench", "--json", *BUDGET, settings=NEITHER_CHILD_NOR_TORCH)
    assert again.stderr.count("(recorded before)") == len(BAD) + len(GOOD) + 1
    assert len(checkout.records()) == len(BAD) + len(GOOD) + 1


def test_samples_are_short() -> None:
    assert all(len(path.read_text().splitlines()) < 65 for path in Path(SAMPLES).rglob("*.py"))
