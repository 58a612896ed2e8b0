"""A build that failed becomes an attempt, the budget of attempts is kept, and nothing is compiled without a reason."""

from pathlib import Path
from typing import Any

import pytest

from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.evidence import toolchain
from harness.evidence.toolchain import Tool, Toolchain
from harness.judge import builds
from harness.judge.candidate import Candidate, Referees, Rejection, Settings
from harness.records.base import Cause, Stage, Status
from harness.records.builds import Build, BuildRecord, KernelEvidence
from harness.records.store import read

SHAPE = "matmul_bf16fp32_512x512x512"
TOOLS = Toolchain(Tool(Path("nvcc"), "13.0.88"), Tool(Path("cuobjdump"), "13.5.37"), "g++")
FAILED = Rejection(Cause.COMPILE, "it does not compile")


@pytest.fixture(autouse=True)
def tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "find", lambda: TOOLS)
    monkeypatch.setattr("harness.judge.candidate.judge_sha256", lambda *_: "judge")


def candidate(tree: Tree, source: str = "a", name: str = "iter001_idea", **changes: Any) -> Candidate:
    """One at its build stage; its source is told apart by ``source``."""
    path = tree.folder("h200") / "srcs" / SHAPE / "me" / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    gpu = gpus.find("h200")
    settings = Settings(budget_s=1.0, attempts=changes.pop("attempts", 3))
    made = Candidate(tree.parse(path), tree.root, gpu, None, settings, Referees(tree.root, gpu))
    made.stage = changes.pop("stage", Stage.BUILD)
    made.build = changes.pop("build", None)
    return made


def recorded(tree: Tree) -> list[BuildRecord]:
    records, problems = read(tree.builds("h200", SHAPE, "me"), BuildRecord)
    assert problems == []
    return records


def fail(tree: Tree, source: str, **changes: Any) -> str:
    """Let a source fail to compile; what it is told."""
    rejection, attempt = builds.keep(tree, candidate(tree, source, **changes), FAILED)
    assert rejection is not None
    assert attempt is not None
    assert attempt in rejection.reason
    return rejection.reason


def exhausted(tree: Tree, source: str, **changes: Any) -> bool:
    try:
        builds.refuse_exhausted(candidate(tree, source, **changes))
    except Rejection as rejection:
        return rejection.cause is Cause.ATTEMPTS
    return False


def test_each_failure_is_an_attempt_and_says_what_is_left(tree: Tree) -> None:
    assert fail(tree, "a") == "it does not compile (attempt0001; 2 of 3 attempts left for iter001)"
    assert fail(tree, "b") == "it does not compile (attempt0002; 1 of 3 attempts left for iter001)"
    assert (
        fail(tree, "c", name="iter002_other") == "it does not compile (attempt0003; 2 of 3 attempts left for iter002)"
    )
    assert [each.attempt for each in recorded(tree)] == ["attempt0001", "attempt0002", "attempt0003"]
    assert recorded(tree)[0].reason == "it does not compile"


def test_the_same_source_takes_one_attempt_however_often_it_fails(tree: Tree) -> None:
    for _ in range(4):
        told = fail(tree, "a")
    assert told.endswith("2 of 3 attempts left for iter001)")
    assert not exhausted(tree, "a")


def test_a_used_up_budget_refuses_new_sources_until_more_are_allowed(tree: Tree) -> None:
    for source in ("a", "b", "c"):
        assert not exhausted(tree, source)
        fail(tree, source)
    assert exhausted(tree, "d")
    assert exhausted(tree, "d", name="iter001_renamed")
    assert not exhausted(tree, "c")  # nothing new
    assert not exhausted(tree, "d", attempts=4)
    assert not exhausted(tree, "d", name="iter002_other")


def test_a_success_gives_the_budget_back(tree: Tree) -> None:
    for source in ("a", "b", "c"):
        fail(tree, source)
    assert builds.keep(tree, candidate(tree, "d", build=Build(1.0, "hash", 10)), None) == (None, None)
    assert not exhausted(tree, "e")
    assert "2 of 3 attempts left" in fail(tree, "e")


def test_what_is_recorded_answers_for_the_same_source_and_the_same_compilers(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds.keep(tree, candidate(tree, "a", build=Build(1.0, "hash", 10)), None)
    known = builds.known(candidate(tree, "a"))
    assert known is not None
    assert known.build == Build(1.0, "hash", 10)
    assert builds.known(candidate(tree, "b")) is None
    monkeypatch.setattr(toolchain, "find", lambda: Toolchain(Tool(Path("nvcc"), "13.5.37"), TOOLS.cuobjdump, "g++"))
    assert builds.known(candidate(tree, "a")) is None
    # another disassembler counts the same code, and a machine without one would only know less
    for disassembler in (Tool(Path("cuobjdump"), "14.0.1"), None):
        monkeypatch.setattr(toolchain, "find", lambda found=disassembler: Toolchain(TOOLS.nvcc, found, "g++"))
        assert builds.known(candidate(tree, "a")) is not None


def test_a_build_without_counted_instructions_does_not_answer_where_they_can_be_counted(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "find", lambda: Toolchain(TOOLS.nvcc, None, "g++"))
    builds.keep(tree, candidate(tree, "a", build=Build(1.0, "hash", 10)), None)
    monkeypatch.setattr(toolchain, "find", lambda: TOOLS)
    assert builds.known(candidate(tree, "a")) is None


def test_known_code_that_was_only_built_is_kept_beside_the_records_that_git_tracks(tree: Tree) -> None:
    def keep(source: str, made: Build, name: str = "iter001_idea", launches: bool = False) -> None:
        entered = candidate(tree, source, name, build=made)
        entered.launches = launches
        assert builds.keep(tree, entered, None) == (None, None)

    def kept() -> list[tuple[str, float]]:
        return [(each.iteration, each.build.seconds) for each in recorded(tree) if each.build]

    evidence = (KernelEvidence("main_kernel", (132, 1, 1), 384, (1, 1, 1), 229376, registers=168),)
    keep("a", Build(1.0, "hash", 10, kernels=evidence))
    keep("b", Build(2.0, "hash", 10))  # the same text of another source
    keep("c", Build(3.0, "renamed", 10, kernels=evidence))  # another text with the same evidence
    assert kept() == [("iter001_idea", 1.0)]
    known = builds.known(candidate(tree, "c"))  # and is not built again
    assert known is not None
    assert known.build is not None
    assert known.build.seconds == 3.0
    keep("d", Build(4.0, "text", 10))  # another code
    keep("a", Build(5.0, "hash", 10, kernels=evidence), name="iter002_other")  # another iteration
    keep("e", Build(6.0, "hash", 10), launches=True)  # a row of the board needs its build
    assert kept() == [("iter001_idea", 1.0), ("iter001_idea", 4.0), ("iter002_other", 5.0), ("iter001_idea", 6.0)]


@pytest.mark.parametrize(
    ("cause", "repeats"), [(Cause.COMPILE, True), (Cause.DOES_NOT_FIT, True), (Cause.TIMEOUT, False)]
)
def test_only_what_the_compilers_said_is_taken_as_said_again(tree: Tree, cause: Cause, repeats: bool) -> None:
    builds.keep(tree, candidate(tree, "a"), Rejection(cause, "no"))
    assert (builds.known(candidate(tree, "a")) is not None) == repeats
    changed = candidate(tree, "a")
    changed.judge_sha256 = "another"  # what refused it may have been the harness
    assert builds.known(changed) is None


def test_a_kernel_that_fails_to_compile_when_first_called_is_an_attempt(tree: Tree) -> None:
    told, attempt = builds.keep(tree, candidate(tree, "a", stage=Stage.VERIFY), FAILED)
    assert attempt == "attempt0001"
    assert told is not None
    assert "2 of 3" in told.reason


@pytest.mark.parametrize("cause", [Cause.WRONG_RESULT, Cause.RUNTIME, Cause.CRASH])
def test_what_fails_later_was_built(tree: Tree, cause: Cause) -> None:
    later = candidate(tree, "a", stage=Stage.VERIFY, build=Build(1.0, "hash", 10))
    rejection = Rejection(cause, "no")
    assert builds.keep(tree, later, rejection) == (rejection, None)
    assert [each.status for each in recorded(tree)] == [Status.PASSED]


def test_what_breaks_the_contract_or_computes_something_else_is_no_attempt(tree: Tree) -> None:
    for stage, cause in (
        (Stage.CONTRACT, Cause.CONTRACT),
        (Stage.BUILD, Cause.WRONG_PROBLEM),
        (Stage.BUILD, Cause.ATTEMPTS),
    ):
        rejection = Rejection(cause, "no")
        assert builds.keep(tree, candidate(tree, stage=stage), rejection) == (rejection, None)
    assert recorded(tree) == []
