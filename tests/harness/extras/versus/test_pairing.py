"""Two environments, measured: the rows that records make; a slowed and a broken TileLang, found by real processes."""

import math
import subprocess
import sysconfig
import venv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from harness.boards import comparison
from harness.catalog import gpus
from harness.catalog.tree import Iteration, Tree
from harness.cli import versus as verbs
from harness.cli.options import SelectionOptions
from harness.cli.reply import Reply
from harness.errors import ExitCode, InfrastructureError, UsageError
from harness.extras.scratch_tree import linked_tree
from harness.extras.versus import show
from harness.extras.versus.duel import Contender, Match, identical
from harness.extras.versus.environment import NEEDED, PythonEnvironment
from harness.extras.versus.measured import BY_CHANCE, FAIL_ON, fails, is_worse, settled
from harness.extras.versus.pairing import LIBRARY, PairedRow, beside_library, library_calls, measure, row
from harness.extras.versus.rows import BuildChange, VersusRow, VersusSide
from harness.extras.versus.shift import Shift, error_of
from harness.judge.candidate import Settings
from harness.judge.facts import device_rules
from harness.judge.facts.compilation import Compilation, Launch
from harness.judge.facts.problem import parse_shape_key
from harness.judge.interpreters import Interpreter
from harness.judge.messages import Built
from harness.judge.processes import end_forkserver
from harness.machine.progress import Quiet
from harness.records.base import Cause, Environment, Status
from harness.records.results import Measurement
from harness.records.store import read
from harness.records.versus import MatchSide, VersusRecord
from harness.runs.run import Plan
from tests.harness.checkout import SCALAR, SHAPE
from tests.harness.extras.versus.test_rows import elf

OLD = MatchSide("0.1.14", "3.12", "0.1.14", "2.13.0", "a")
NEW = MatchSide("0.1.15", "3.12", "0.1.15", "2.13.0", "b")
ENVIRONMENT = Environment("cpu", "a CPU", "", "none", "3.12", "2.13.0", "0.1.15", "0.1", "judge")
FAILED = "ImportError: no gemm_v3"


def measurement(ratio: float, half: float = 0.002) -> Measurement:
    return Measurement(
        timer="host", baseline="iter001", ratio=ratio, ratio_low=ratio - half, ratio_high=ratio + half, stable=True,
        time_ms=1, tflops=1, baseline_ms=1, baseline_tflops=1, rounds=48, placements=8, launches=1,
        baseline_launches=1, verified_blocks=8, seconds=1, blocks=(),
    )  # fmt: skip


def record(ratio: float | None = None, **more: Any) -> VersusRecord:
    fields = {
        "schema": 1, "recorded_at": "2026-11-23", "gpu": "cpu", "shape_key": SHAPE, "model": "tester",
        "iteration": "iter001_tiles", "number": 1, "old": OLD, "new": NEW, "swapped": False, "identical": False,
        "status": Status.PASSED, "source_sha256": "s", "families_sha256": "f", "environment": ENVIRONMENT,
        "measurement": None if ratio is None else measurement(ratio),
    }  # fmt: skip
    return VersusRecord(**{**fields, **more})


def failing(side: MatchSide) -> MatchSide:
    return msgspec.structs.replace(side, reason=FAILED)


FAULT: Final[dict[str, Any]] = {"status": Status.FAILED, "cause": Cause.LOAD, "reason": FAILED}


@pytest.mark.parametrize(
    ("records", "verdict"),
    [
        ([record(0.97), record(1 / 0.97, swapped=True)], Shift.SLOWER),
        ([record(1.03), record(1 / 1.03, swapped=True)], Shift.FASTER),
        ([record(1.03), record(1.03, swapped=True)], Shift.SAME),  # it is the place that is faster
        ([record(1.001)], Shift.SAME),
        ([record(identical=True)], Shift.SAME),
        ([record(0.97, identical=True)], Shift.SAME),  # one code: its place is slower
        ([record(new=failing(NEW), **FAULT)], Shift.BROKEN),
        ([record(old=failing(OLD), **FAULT)], Shift.FIXED),
        ([record(old=failing(OLD), new=failing(NEW), **FAULT)], Shift.FAILS),
        ([record(0.97), record(**{**FAULT, "cause": Cause.CLOCK}, swapped=True)], Shift.UNDECIDED),
    ],
)
def test_a_row_says_what_its_records_say(records: list[VersusRecord], verdict: Shift) -> None:
    found = row(records, error_of(40))
    assert (found.problem, found.iteration, found.verdict) == (SHAPE, "iter001_tiles", verdict)
    if verdict is Shift.SLOWER:
        assert found.ratio == pytest.approx(0.97)
        assert found.ratio_low is not None and found.ratio_high is not None
        assert found.ratio_low < 0.97 < found.ratio_high < 1


@pytest.mark.parametrize(
    ("code", "alike", "verdict"),
    [
        (BuildChange.SAME, True, Shift.SAME),
        (BuildChange.VARIES, True, Shift.SAME),
        (BuildChange.SAME, False, Shift.SLOWER),
        (BuildChange.DIFFERENT, True, Shift.SLOWER),
    ],
)
def test_what_both_can_compile_alike_is_the_same(code: BuildChange, alike: bool, verdict: Shift) -> None:
    """On an H200 one TileLang in two environments gave two kernels, of which one was 1.2% slower."""
    side = VersusSide(None, 1.0, "source", "code", ())
    slower = PairedRow("p", "me", "iter001", Shift.SLOWER, False, 0.988, 0.987, 0.989)
    other = PairedRow("q", "me", "iter001", Shift.SLOWER, False, 0.988, 0.987, 0.989)
    found = settled([slower, other], [VersusRow("p", "me", "iter001", code, side, side, launched_alike=alike)])
    assert [each.verdict for each in found] == [verdict, Shift.SLOWER]
    assert (found[0].ratio, found[0].reason) == (0.988, BY_CHANCE if verdict is Shift.SAME else None)


@pytest.mark.parametrize(("ratio", "verdict"), [(0.989, Shift.SAME), (None, Shift.UNDECIDED)])
def test_roles_that_disagree_by_chance_are_the_same(ratio: float | None, verdict: Shift) -> None:
    """On an H200 one TileLang in two environments had 0.979, and 1.002 in swapped roles. A fault stays undecided."""
    side = VersusSide(None, 1.0, "source", "code", ())
    doubtful = PairedRow("p", "me", "iter001", Shift.UNDECIDED, False, ratio, ratio, ratio)
    build = VersusRow("p", "me", "iter001", BuildChange.SAME, side, side, launched_alike=True)
    assert [each.verdict for each in settled([doubtful], [build])] == [verdict]


@pytest.mark.parametrize(("code", "worse"), [(BuildChange.SAME, False), (BuildChange.DIFFERENT, True)])
def test_a_bisection_passes_over_what_is_slower_by_chance(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, code: BuildChange, worse: bool
) -> None:
    side = VersusSide(None, 1.0, "source", "code", ())
    slower = PairedRow("p", "me", "iter001", Shift.SLOWER, False, 0.988, 0.987, 0.989)
    monkeypatch.setattr("harness.extras.versus.measured.measure", lambda *_: [slower])
    held = dict.fromkeys(NEEDED, "1.0")
    first, later = (PythonEnvironment(name, tree.root / name, "3.11", held, name) for name in ("first", "later"))
    plan = Plan(tree, gpus.find("h200"), None, (), Settings(1.0))
    iteration = Iteration(tree.root, "h200", parse_shape_key(SHAPE), "me", 1, "tiles")
    builds = [VersusRow("p", "me", "iter001", code, side, side)]
    assert is_worse(plan, iteration, first, later, Quiet(), lambda: builds) is worse


def test_a_ratio_to_the_library_changes_with_both() -> None:
    """The library became 4% faster and the kernel 1%: the kernel's ratio to it fell to 1.01 / 1.04."""
    rows = [
        PairedRow("p", LIBRARY, "iter000_torch_matmul", Shift.FASTER, False, 1.04, 1.03, 1.05),
        PairedRow("p", "me", "iter001", Shift.FASTER, False, 1.01, 1.009, 1.011),
        PairedRow("p", "me", "iter002", Shift.SAME, identical=True),
        PairedRow("q", "me", "iter001", Shift.FASTER, False, 1.01, 1.009, 1.011),
        PairedRow("p", "me", "iter003", Shift.BROKEN, reason=FAILED),
    ]
    library, one, same, other, broken = beside_library(rows)
    assert one.to_library == pytest.approx(1.01 / 1.04)
    assert one.to_library_low is not None and one.to_library_high is not None
    assert 1.01 / 1.05 * 0.998 < one.to_library_low < 1.01 / 1.04 < one.to_library_high < 1.01 / 1.03 * 1.002
    assert same.to_library == pytest.approx(1 / 1.04)
    assert [each.to_library for each in (library, other, broken)] == [None] * 3
    told = show.pairs([one, same, broken])
    assert "1 faster, 1 same, 1 broken (1 with the same code)" in told
    assert "0.9712" in told and f"iter003: {FAILED}" in told and "iter002" not in told


@pytest.mark.parametrize(
    ("said", "failing"),
    [
        (None, ["iter004"]),
        ("slower", ["iter001", "iter002", "iter004"]),
        ("slower:1%", ["iter002", "iter004"]),  # of iter001 the interval's near end is 0.8% away
        ("slower:3%", ["iter004"]),
        ("faster:1%, undecided", ["iter003", "iter004", "iter005"]),
    ],
)
def test_a_job_fails_by_intervals(said: str | None, failing: list[str]) -> None:
    rows = [
        PairedRow("p", "me", "iter001", Shift.SLOWER, False, 0.985, 0.978, 0.992),
        PairedRow("p", "me", "iter002", Shift.SLOWER, False, 0.97, 0.965, 0.975),
        PairedRow("p", "me", "iter003", Shift.FASTER, False, 1.02, 1.015, 1.025),
        PairedRow("p", "me", "iter004", Shift.BROKEN, reason=FAILED),
        PairedRow("p", "me", "iter005", Shift.UNDECIDED, False, 0.97, 0.8, 1.1),
        PairedRow("p", "me", "iter006", Shift.SAME, identical=True),
    ]
    limits = comparison.limits(said, *FAIL_ON)
    assert [each.iteration for each in rows if fails(limits, each)] == failing


@pytest.mark.parametrize("word", ["slow", "slower:1", "same", "slower:-1%", ""])
def test_a_word_that_no_row_can_have_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="--fail-on"):
        comparison.limits(word, *FAIL_ON)


def test_the_same_code_is_the_same_cubin_or_the_same_c_source() -> None:
    cpu, gpu = gpus.find("cpu"), gpus.find("h200")
    launch = Launch("k", (1, 1, 1), (1, 1, 1), (1, 1, 1), 0)
    one = Built(1.0, (), Compilation("int f();", (launch,), elf(b"code", b"a.cu")))
    renamed = Built(1.0, (), Compilation("int g();", (launch,), elf(b"code", b"b.cu")))
    other = Built(1.0, (), Compilation("int f();", (launch,), elf(b"edoc", b"a.cu")))
    larger = Built(1.0, (), Compilation("int f();", (replace_shared(launch),), elf(b"code", b"a.cu")))
    unseen = Built(1.0, (), Compilation("int f();", (launch,)))
    call = Built(1.0, None)
    assert identical(one, other, cpu) and not identical(one, renamed, cpu)
    assert identical(one, renamed, gpu) and not identical(one, other, gpu) and not identical(one, larger, gpu)
    assert not identical(unseen, unseen, gpu) and not identical(call, call, cpu)


def replace_shared(launch: Launch) -> Launch:
    return msgspec.structs.replace(launch, dynamic_shared_bytes=1024)


# From here on with real processes: three forkservers, of this interpreter and of two layers over it.

SLOWED = """
def _slowed(source):
    import re
    head = r"(?m)^(int32_t main_kernel\\(.*\\) \\{)$"
    return re.sub(head, r"\\1 for (volatile long waited = 0; waited < 3000000; ++waited);", source)
"""

WRONG_ABI = "raise ImportError('libtvm.so: wrong ABI')\n"

DYING = "import os\nos.write(2, b'a warning\\nundefined symbol: main\\n')\nos._exit(127)\n"


def layer(folder: Path, *, slowed: bool = False, instead: str = "") -> Contender:
    """A virtual environment over the running one; its TileLang is a copy that is slow, or this code ``instead``."""
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    base, own = sysconfig.get_path("purelib"), Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    (own / "base.pth").write_text(base)
    if slowed:
        subprocess.run(["cp", "-rs", f"{base}/tilelang", str(own)], check=True)
        lower = own / "tilelang/engine/lower.py"
        text = lower.read_text().replace("= codegen_mod.inspect_source()", "= _slowed(codegen_mod.inspect_source())")
        assert "_slowed" in text
        lower.unlink()
        lower.write_text(text + SLOWED)
    if instead:
        (own / "tilelang").mkdir()
        (own / "tilelang/__init__.py").write_text(instead)
    side = MatchSide(folder.name, "3", "0", "2", folder.name)
    return Contender(side, Interpreter(folder.name, folder / "bin/python", folder / "caches"))


@pytest.fixture
def tree(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tree]:
    """One iteration, and a clock that forgives a busy machine."""
    patient = replace(device_rules.CPU_RULES.lateness, ms=math.inf)
    monkeypatch.setattr(device_rules, "CPU_RULES", replace(device_rules.CPU_RULES, lateness=patient, measurements=1))
    with linked_tree(Tree(Path(__file__).resolve().parents[4]), "versus") as tree:
        path = tree.source("cpu", SHAPE, "tester", "iter001_tiles_of_16")
        path.parent.mkdir(parents=True)
        path.write_text(SCALAR.format(block=16))
        yield tree
    end_forkserver()


def planned(tree: Tree) -> tuple[Plan, Iteration]:
    gpu = gpus.find("cpu")
    iteration = tree.parse(tree.source("cpu", SHAPE, "tester", "iter001_tiles_of_16"))
    return Plan(tree, gpu, None, (), Settings.of(gpu, 0.1)), iteration


@pytest.mark.slow
def test_a_slowed_and_a_broken_tilelang_are_found(tree: Tree, tmp_path: Path) -> None:
    plan, iteration = planned(tree)
    plain, slow = layer(tmp_path / "plain"), layer(tmp_path / "slow", slowed=True)
    (found,) = measure(Match(plan, plain, slow), [iteration], Quiet())
    assert found.verdict is Shift.SLOWER, found
    assert found.ratio is not None and found.ratio < 0.5
    records, problems = read(tree.versus("cpu", SHAPE), VersusRecord)
    assert problems == []
    assert [(each.swapped, each.old.name, each.new.name) for each in records] == [
        (False, "plain", "slow"),
        (True, "plain", "slow"),
    ]
    # Nothing is measured twice.
    assert measure(Match(plan, plain, slow), [iteration], Quiet()) == [found]
    assert read(tree.versus("cpu", SHAPE), VersusRecord)[0] == records
    (same,) = measure(Match(plan, plain, replace(plain, side=NEW)), [iteration], Quiet())
    assert same.identical and same.verdict is Shift.SAME
    (broken,) = measure(Match(plan, plain, layer(tmp_path / "none", instead=WRONG_ABI)), [iteration], Quiet())
    assert broken.verdict is Shift.BROKEN
    assert broken.reason == "torch or TileLang cannot be imported in none: ImportError: libtvm.so: wrong ABI"


def test_an_interpreter_that_dies_of_its_imports_breaks_its_rows_alone(tree: Tree, tmp_path: Path) -> None:
    plan, iteration = planned(tree)
    plain, dying = layer(tmp_path / "plain"), layer(tmp_path / "dying", instead=DYING)
    (broken,) = measure(Match(plan, plain, dying), [iteration], Quiet())
    assert broken.verdict is Shift.BROKEN
    assert broken.reason == "dying ended while it imported torch or TileLang: undefined symbol: main"


def test_the_library_call_of_each_problem_is_one_row(tree: Tree) -> None:
    iteration = tree.parse(tree.source("cpu", SHAPE, "tester", "iter001_tiles_of_16"))
    (call,) = library_calls([iteration, iteration])
    assert (call.number, call.model, call.name) == (0, LIBRARY, "iter000_torch_matmul")
    assert call.problem == parse_shape_key(SHAPE)


class Verb:
    """The verb on a CPU, with environments and rows that are given."""

    def __init__(self, tree: Tree, patch: pytest.MonkeyPatch, rows: list[PairedRow]) -> None:
        held = {"tilelang": "0.1.14", "torch": "2.13.0"}
        environments = [
            PythonEnvironment(name, Path(name), "3.12", held | {"tilelang": name}, name) for name in ("9.1", "9.2")
        ]
        patch.setenv("TILEBENCH_ROOT", str(tree.root))
        patch.setattr(verbs, "pair", lambda *_: environments)
        patch.setattr(verbs, "measured", lambda *_, **__: rows)

    def __call__(self, **options: Any) -> Reply[verbs.VersusData]:
        return verbs.hold(SelectionOptions(gpu="cpu"), old="9.1", new="9.2", **options)


def test_the_verb_fails_by_what_was_measured(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    slower = PairedRow(SHAPE, "tester", "iter001_tiles_of_16", Shift.SLOWER, False, 0.97, 0.965, 0.975)
    verb = Verb(tree, monkeypatch, [slower])
    assert [verb(all=True, fail_on=said).exit_code for said in (None, "slower:1%", "slower:3%")] == [
        ExitCode.PASSED,
        ExitCode.REJECTED,
        ExitCode.PASSED,
    ]
    reply = verb(all=True, format="github")
    assert reply.data.paired == (slower,)
    assert "| slower" in reply.text() and "[0.9650, 0.9750]" in reply.text()
    with pytest.raises(UsageError, match="no problem of cpu has a leader here yet; run bench first"):
        verb()


def test_without_a_gpu_the_verb_says_what_it_can_do(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "usable", list)
    with pytest.raises(InfrastructureError, match="has no NVIDIA GPU.*compare the compiled code, which needs no GPU"):
        verbs.hold(SelectionOptions(gpu="h200"), old="9.1")
