"""Rows of versus: verdicts over one or two builds, what a caller fails on, what is printed, and bisection."""

import struct
import subprocess
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from harness.boards import comparison
from harness.catalog.tree import Iteration, Tree
from harness.errors import UsageError
from harness.extras.versus import show
from harness.extras.versus.bisect import Clone, between, bisect
from harness.extras.versus.compiling import BuildOrder, KernelCode, VersusBuild, code_sha256
from harness.extras.versus.environment import PythonEnvironment
from harness.extras.versus.opcodes import class_of, classes
from harness.extras.versus.rows import FAIL_ON, BuildChange, VersusRow, answers, fails, versus
from harness.judge.facts.problem import parse_shape_key
from harness.machine.progress import Quiet
from tests.harness.extras.versus.index import wheel

SHAPE = "causalattention_bf16fp32_16x16x16x1024x128x128"


def env(release: str) -> PythonEnvironment:
    held = {"tilelang": release, "torch": "2.13.0", "apache-tvm-ffi": f"9.{release}"}
    return PythonEnvironment(release, Path("/p", release), "3.11.7", held, release)


OLD, NEW = env("0.1.14"), env("0.1.15")


def iteration(number: int = 1) -> Iteration:
    return Iteration(Path(f"/i/{number}.py"), "h200", parse_shape_key(SHAPE), "me", number, "an_idea_with_a_long_name")


def build(code: str, registers: int = 168, spills: int = 0, **classes: int) -> VersusBuild:
    kernel = KernelCode("main", registers, spills, 196_608, sum(classes.values()), classes)
    return VersusBuild(1.0, None, f"source\n{code}\n", code, (kernel,))


class Made:
    """A compiler that finds what it is given, by release and sample, and keeps what was asked."""

    def __init__(self, **builds: VersusBuild) -> None:
        self.builds = builds
        self.made: dict[BuildOrder, VersusBuild] = {}

    def build(self, orders: Iterable[BuildOrder]) -> None:
        for order in orders:
            side = "old" if order.environment is OLD else "new"
            self.made[order] = self.builds.get(f"{side}{order.sample}", self.builds[f"{side}1"])


def row(**builds: VersusBuild) -> VersusRow:
    (made,) = versus(Made(**builds), [iteration()], OLD, NEW, diff=True)  # type: ignore[arg-type]
    return made


def changed(old: VersusBuild, new: VersusBuild) -> VersusRow:
    return row(old1=old, old2=old, new1=new, new2=new)


BROKEN = VersusBuild(error="AttributeError: module 'tilelang.language' has no attribute 'cluster'")


def test_one_machine_code_is_the_same_and_is_built_once() -> None:
    made = row(old1=build("a"), new1=build("a"))
    assert (made.verdict, made.notes, made.diff) == (BuildChange.SAME, (), None)


def test_a_second_build_that_agrees_is_the_same() -> None:
    made = row(old1=build("a"), old2=build("a"), new1=build("b"), new2=build("a"))
    assert made.verdict is BuildChange.SAME
    assert made.new.code_sha256 == "a"
    assert made.notes == ("two builds by the new environment differ",)


def test_what_one_environment_builds_in_two_ways_is_built_a_third_time() -> None:
    unsteady = {"old1": build("a"), "old2": build("b", tensor=1), "new1": build("c", tensor=2)}
    assert row(**unsteady).verdict is BuildChange.DIFFERENT
    assert row(**unsteady, new3=build("a")).verdict is BuildChange.SAME
    assert row(old1=build("a"), new1=build("b", tensor=1), new3=build("a")).verdict is BuildChange.DIFFERENT


def test_what_differs_no_more_than_one_environment_does_varies() -> None:
    made = row(
        old1=build("a", tensor=8), old2=build("b", tensor=8), new1=build("c", tensor=8), new2=build("c", tensor=8)
    )
    assert made.verdict is BuildChange.VARIES
    assert not failing("different", made)
    more = row(
        old1=build("a", tensor=8), old2=build("b", tensor=8), new1=build("c", tensor=9), new2=build("c", tensor=9)
    )
    assert more.verdict is BuildChange.DIFFERENT


def test_a_difference_is_told_in_figures_and_classes() -> None:
    made = changed(build("a", tensor=8, barrier=4), build("b", registers=160, tensor=8, barrier=3, local=2))
    assert made.verdict is BuildChange.DIFFERENT
    assert made.notes == ("instructions: barrier -1, local +2",)
    assert made.figures("registers") == (168, 160)
    assert made.diff is not None
    assert made.diff.splitlines()[-2:] == ["-a", "+b"]


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        (build("a"), BROKEN, BuildChange.BROKEN),
        (BROKEN, build("a"), BuildChange.FIXED),
        (BROKEN, BROKEN, BuildChange.FAILS),
    ],
)
def test_a_failure_has_its_first_line(old: VersusBuild, new: VersusBuild, verdict: BuildChange) -> None:
    made = changed(old, new)
    assert made.verdict is verdict
    assert any("has no attribute 'cluster'" in note for note in made.notes)


def test_what_python_refuses_is_not_built_again() -> None:
    assert row(old1=build("a"), new1=BROKEN).verdict is BuildChange.BROKEN
    late = VersusBuild(error="the build crashed, or was not done within 180 s")
    assert row(old1=build("a"), new1=late, new2=build("a")).verdict is BuildChange.SAME


def failing(said: str | None, made: VersusRow) -> bool:
    return fails(comparison.limits(said, *FAIL_ON), made)


def test_what_fails_the_command() -> None:
    wide, spilling = changed(build("a"), build("b", 185)), changed(build("a"), build("b", spills=8))
    assert failing(None, changed(build("a"), BROKEN))
    assert not failing(None, wide)
    assert failing("different", wide)
    assert failing("registers:10%", wide)
    assert not failing("registers:11%", wide)
    assert failing("registers:11%, spills", spilling)
    assert not failing("different, spills, registers", changed(BROKEN, build("a", spills=8)))
    with pytest.raises(UsageError, match="--fail-on 'slow' is not"):
        failing("slow", wide)


def test_what_a_bisection_asks() -> None:
    broken, spilling = changed(build("a"), BROKEN), changed(build("a"), build("b", spills=8))
    asked = {question: (answers(question, broken), answers(question, spilling)) for question in ("broken", "spills")}
    assert asked == {"broken": (True, False), "spills": (False, True)}
    assert answers("different", broken)
    assert answers("different", spilling)


def test_the_table_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    rows = [changed(build("a", tensor=80), build("b", 160, 1024, tensor=9000)), changed(build("a"), BROKEN)]
    told = show.text([*rows, row(old1=build("a"), new1=build("a"))], OLD, NEW, "sm_90a")
    lines = [line for line in told.splitlines() if not line.startswith(("+", "-", " "))]
    assert max(map(len, lines)) <= 80
    assert "168>160" in told
    assert "1 same, 1 different, 1 broken" in told.replace("\n", " ")
    assert "2: new: AttributeError: module" in told
    assert "apache-tvm-ffi 9.0.1.14 > 9.0.1.15" in told


def test_a_note_of_many_rows_is_told_once() -> None:
    broken, other = changed(build("a"), BROKEN), changed(build("a"), build("b", tensor=1))
    told = show.notes(list(enumerate([broken, broken, broken, other, broken], start=1)))
    assert [line.partition(":")[0] for line in told] == ["1-3, 5", "4"]


def test_markdown_folds_the_diff() -> None:
    told = show.markdown([changed(build("a"), build("b", 160))], OLD, NEW, "sm_90a")
    assert told.startswith("**TileLang 0.1.14")
    assert f"<details><summary>{SHAPE} " in told
    assert "```diff\n--- old" in told


def test_every_instruction_of_a_gemm_has_a_class() -> None:
    known = {
        "HGMMA": "tensor",
        "UTMALDG": "TMA",
        "SYNCS": "barrier",
        "LDSM": "shared",
        "STL": "local",
        "FFMA2": "float",
    }
    known |= {"LDGDEPBAR": "barrier", "UIADD3": "integer", "IMAD": "integer", "R2UR": "move", "BRA": "control"}
    assert {name: class_of(name) for name in known} == known
    assert classes({"STL": 2, "LDL": 1, "QQQ": 1}) == {"local": 3, "other": 1}


def elf(code: bytes, lines: bytes) -> bytes:
    """An ELF file with machine code and the lines that it came from."""
    names = b"\0.text.main\0.debug_line\0.shstrtab\0"
    parts = [b"", code, lines, names]
    offsets = [64 + sum(map(len, parts[:number])) for number in range(4)]
    titles = [0, 1, names.index(b".debug"), names.index(b".shstrtab")]
    head = b"\x7fELF\x02" + bytes(0x28 - 5) + struct.pack("<Q", 64 + sum(map(len, parts))) + bytes(0x3A - 0x30)
    head += struct.pack("<HHH", 64, 4, 3)
    table = b"".join(
        struct.pack("<IIQQQQ", title, 1, 0, 0, offset, len(part)) + bytes(24)
        for title, offset, part in zip(titles, offsets, parts, strict=True)
    )
    return head + b"".join(parts) + table


def test_lines_of_the_source_are_no_code() -> None:
    assert code_sha256(elf(b"HGMMA", b"/tmp/1/kernel.cu")) == code_sha256(elf(b"HGMMA", b"/tmp/22/kernel.cu"))
    assert code_sha256(elf(b"HGMMA", b"/tmp/1")) != code_sha256(elf(b"IGMMA", b"/tmp/1"))
    with pytest.raises(ValueError, match="no ELF"):
        code_sha256(b"#!/bin/sh")


@pytest.mark.parametrize("first_bad", range(1, 9))
def test_bisection_finds_the_first(first_bad: int) -> None:
    found = bisect("012345678", lambda name: int(name) >= first_bad)
    assert (found.good, found.bad) == (str(first_bad - 1), str(first_bad))
    assert len(found.asked) <= 5


def test_bisection_passes_over_what_cannot_be_asked() -> None:
    def ask(name: str) -> bool:
        if name in "345":
            raise UsageError("no wheel")
        return name >= "5"

    found = bisect("012345678", ask)
    assert (found.good, found.bad, found.skipped) == ("2", "6", dict.fromkeys("345", "no wheel"))


@pytest.mark.parametrize(("bad_from", "said"), [(0, "0 has it already"), (9, "8 does not have it")])
def test_bisection_needs_two_ends_that_differ(bad_from: int, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        bisect("012345678", lambda name: int(name) >= bad_from)


@pytest.mark.parametrize("ends", [("zero", "0.1.15"), ("0.1.15", "zero")])
def test_what_is_no_release_is_named(ends: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match="needs two releases of TileLang.*'zero'"):
        between(*ends)


def test_a_clone_gives_an_environment_a_commit(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    clone.mkdir()

    def git(*words: str) -> str:
        command = ["git", "-C", str(clone), "-c", "user.name=t", "-c", "user.email=t@t", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    git("init", "-q")
    for version in ("0.0.1", "0.0.2"):
        wheel(clone, version)
        git("add", "-A")
        git("commit", "-qm", version)
        (clone / f"tabulate-{version}-py3-none-any.whl").unlink()
    source = Clone(Tree(tmp_path), clone, "mkdir dist && cp *.whl dist", Quiet())
    first, last = source.commits("HEAD~1", "HEAD")
    assert source.environment(last).versions["tabulate"] == "0.0.2"
    with pytest.raises(UsageError, match="does not come after"):
        source.commits("HEAD", "HEAD~1")
    with pytest.raises(UsageError, match=r"clone has no revision 'gone'"):
        source.commits("HEAD", "gone")
    with pytest.raises(UsageError, match="was not built by 'false'"):
        Clone(Tree(tmp_path), clone, "false", Quiet()).environment(first)
    assert git("worktree", "list").count("\n") == 0


def test_a_commit_is_laid_over_a_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clone, base = tmp_path / "clone", tmp_path / "tilelang-0.1-py3-none-any.whl"
    for name in ("tilelang/new.py", "src/tl_templates/gemm.h", "docs/page.md"):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_text("new")
    git = ["git", "-C", str(clone), "-c", "user.name=t", "-c", "user.email=t@t"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    kept = {"tilelang/lib/libtilelang.so", "tilelang/3rdparty/cutlass/a.h", "tilelang-0.1.dist-info/METADATA"}
    with zipfile.ZipFile(base, "w") as held:
        for name in (*kept, "tilelang/gone.py", "tilelang/src/tl_templates/gemm.h"):
            held.writestr(name, "old")
    monkeypatch.setattr("harness.extras.versus.bisect.wheel_of", lambda *_: base)
    monkeypatch.setattr("harness.extras.versus.bisect.environment", lambda _, wheel, __: wheel)
    made = Clone(Tree(tmp_path), clone, "false", Quiet(), over="0.1").environment("HEAD")
    with zipfile.ZipFile(str(made)) as held:
        found = {name: held.read(name).decode() for name in held.namelist()}
    assert found == dict.fromkeys(kept, "old") | {"tilelang/new.py": "new", "tilelang/src/tl_templates/gemm.h": "new"}
