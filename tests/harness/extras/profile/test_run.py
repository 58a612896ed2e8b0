"""A run of profiles: verified first, all outcomes kept, the bound shown, the next iteration from an idea."""

import fcntl
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from harness.authoring import scaffold
from harness.boards import leaderboard, tables
from harness.catalog.gpus import detect, find
from harness.catalog.tree import Iteration, Selection
from harness.cli.notebook import chosen_iterations
from harness.cli.options import SelectionOptions
from harness.errors import ExitCode, InfrastructureError, UsageError
from harness.extras.profile import run as profile_run
from harness.extras.profile import words
from harness.extras.profile.ncu import CountersRefused, Ncu
from harness.extras.profile.run import profile
from harness.extras.profile.session import Refusal, Session
from harness.judge.candidate import Settings
from harness.judge.facts.hashes import source_sha256
from harness.machine.progress import Quiet
from harness.records.profiles import Bound, Confidence, Idea, KernelTime, ProfileOutcome, ProfileRecord
from harness.records.store import append, read
from harness.runs.run import Plan
from tests.harness.checkout import BASELINE, MODEL, SHAPE, Checkout, one_line
from tests.harness.envelopes import answer

STOCK = '''"""The kernel of the first example."""

from kernels.gemm import pipelined

PARENT = "iter000_torch_matmul"
CONFIG = dict(block_M=128, block_N=128, block_K=32, num_stages=3, threads=128)


def build(problem):
    return pipelined(problem, **CONFIG)
'''
IDEA = Idea("larger_tile", "tiles of 32x32", "memory is busiest at 77%", "16 registers", {"block_M": 32, "block_N": 32})


@pytest.fixture(scope="module")
def benched_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    made = Checkout.create(tmp_path_factory.mktemp("profiled") / "checkout")
    made.ladder()
    assert made.run("bench", "--gpu", "cpu", "--budget", "0.2").returncode == 0
    yield made
    made.end()


@pytest.fixture
def benched(benched_once: Checkout, tmp_path: Path) -> Iterator[Checkout]:
    """Two iterations of the CPU key, verified and timed."""
    copy = benched_once.copied(tmp_path / "copy")
    yield copy
    copy.end()


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """In place of ncu: every iteration has one idea and is bound by memory; the profiled ones are listed."""
    profiled: list[str] = []

    def count(session: Session, iteration: Iteration, ncu: Ncu) -> ProfileRecord:
        profiled.append(iteration.name)
        table = session.tree.ncu(iteration, "csv")
        table.parent.mkdir(parents=True, exist_ok=True)
        table.write_text("figures")
        return msgspec.structs.replace(
            session.blank(iteration),
            outcome=ProfileOutcome.PROFILED,
            kernels=(KernelTime("main_kernel", 12.5),),
            bound=Bound.MEMORY,
            confidence=Confidence.HIGH,
            limiter="DRAM",
            evidence=("memory, of peak: DRAM 77%",),
            ideas=(IDEA,),
            csv_sha256="76e5b6d9b4d1d2a7",
        )

    monkeypatch.setattr(Session, "count", count)
    monkeypatch.setattr(profile_run, "require", lambda: Ncu(Path("/ncu"), "2025.3.1.0"))
    return profiled


def plan(checkout: Checkout, *names: str) -> Plan:
    gpu = find("cpu")
    found = checkout.tree.scan("cpu", Selection())[0]
    chosen = tuple(each for each in found if each.name.startswith(names))
    assert len(chosen) == len(names)
    return Plan(checkout.tree, gpu, None, chosen, Settings(budget_s=0.2))


def profiles(checkout: Checkout) -> list[ProfileRecord]:
    found, problems = read(checkout.tree.profiles("cpu", SHAPE, MODEL), ProfileRecord)
    assert problems == []
    return found


def bounds(checkout: Checkout) -> dict[str, str | None]:
    boards, complaints = leaderboard.boards(checkout.tree, "cpu", Selection())
    assert complaints == []
    return {row.iteration: row.bound for board in boards for row in board.rows}


def test_the_leader_is_profiled_and_shown(benched: Checkout, counting: list[str]) -> None:
    (leader,) = leaderboard.leading(benched.tree, "cpu", Selection())
    assert leader.number > 0, "the library's own kernel is not for tuning"
    results = profile(plan(benched, leader.name), Quiet())
    assert (results.exit_code, counting) == (ExitCode.PASSED, [leader.name])
    shown = bounds(benched)
    assert shown.pop(leader.name) == "memory"
    assert set(shown.values()) == {None}
    (board,) = leaderboard.boards(benched.tree, "cpu", Selection())[0]
    assert "memory" in tables.leaderboard(board)
    said = words.verdict(profiles(benched)[0])
    assert "memory-bound by DRAM (high confidence), main_kernel 12.5 µs" in said
    assert f"1. {IDEA.sentence}" in said


def test_an_edited_source_shows_no_bound_and_offers_no_idea(benched: Checkout, counting: list[str]) -> None:
    profile(plan(benched, "iter001"), Quiet())
    (path,) = benched.folder().glob("iter001*")
    path.write_text(path.read_text() + "\n# edited\n")
    assert set(bounds(benched).values()) == {None}
    with pytest.raises(UsageError, match="iter001_tiles_of_16 is not profiled"):
        scaffold.new(benched.tree, "cpu", SHAPE, MODEL, "iter001", None, 1)


def test_figures_of_an_older_source_are_not_given_a_newer_bound(benched: Checkout, counting: list[str]) -> None:
    profile(plan(benched, "iter001"), Quiet())
    (path,) = benched.folder().glob("iter001*")
    path.write_text(path.read_text() + "\n# edited\n")
    newer = msgspec.structs.replace(profiles(benched)[0], source_sha256=source_sha256(path))
    append(benched.tree.profiles("cpu", SHAPE, MODEL), newer)
    assert set(bounds(benched).values()) == {None}


def test_the_next_iteration_starts_from_an_idea(benched: Checkout, counting: list[str]) -> None:
    profile(plan(benched, "iter001"), Quiet())
    done = benched.run("new", "--gpu", "cpu", "--shape", SHAPE, "--model", MODEL, "--from", "iter001", "--idea", "1")
    assert done.returncode == 0, done.stderr
    path = benched.root / done.stdout.strip()
    assert path.name == "iter003_larger_tile.py"
    text = path.read_text()
    assert text.startswith('"""Tiles of 32x32, since memory is busiest at 77%; 16 registers."""')
    assert 'PARENT = "iter001_tiles_of_16"' in text
    assert "CONFIG = dict(block_M=32, block_N=32, block_K=16)" in text, "two levers changed, the third as it was"
    assert benched.run("check", "--gpu", "cpu", "--iter", "3").returncode == 0
    plain = benched.run("new", "--gpu", "cpu", "--shape", SHAPE, "--model", MODEL, "--from", "iter001", "--idea", "0")
    assert plain.stdout.strip().endswith("iter004_next_idea.py")
    beyond = benched.run("new", "--gpu", "cpu", "--shape", SHAPE, "--model", MODEL, "--from", "iter001", "--idea", "2")
    assert beyond.returncode == 2
    assert "--idea 2: the profile of iter001_tiles_of_16 has 1 ideas" in one_line(beyond.stderr)


def test_what_is_not_verified_is_verified_first(checkout: Checkout, counting: list[str]) -> None:
    """One that is right, one that is wrong, one that breaks the contract: only the first is profiled."""
    checkout.ladder((16,))
    wrong = (
        'PARENT = "iter000_torch_matmul"\nCONFIG = {}\n\n\ndef build(problem):\n    return lambda a, b, c: c.zero_()\n'
    )
    checkout.write("iter002_wrong", f'"""It writes zeros."""\n\n{wrong}')
    checkout.write("iter003_tuned", '"""It tunes itself."""\n\nfrom tilelang.autotuner import autotune\n')
    results = profile(plan(checkout, "iter001", "iter002", "iter003"), Quiet())
    assert counting == ["iter001_tiles_of_16"]
    assert results.exit_code is ExitCode.REJECTED
    found = {record.iteration: record for record in profiles(checkout)}
    assert found["iter002_wrong"].outcome is ProfileOutcome.REFUSED
    assert (found["iter002_wrong"].reason or "").startswith("verify: random trial: max_abs_err=")
    breach = found["iter003_tuned"].reason or ""
    assert breach.startswith("contract: import of 'tilelang.autotuner'")
    assert breach.endswith(", at iter003_tuned.py:3: from tilelang.autotuner import autotune")
    assert len(checkout.records()) == 3, "what was verified on the way is recorded too"


def test_a_verified_iteration_is_not_verified_again(benched: Checkout, counting: list[str]) -> None:
    before = len(benched.records())
    profile(plan(benched, "iter001"), Quiet())
    assert len(benched.records()) == before


def test_refused_counters_leave_names_durations_and_one_remedy(
    benched: Checkout, counting: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def refuse(session: Session, iteration: Iteration, ncu: Ncu) -> ProfileRecord:
        tried.append(iteration.name)
        raise CountersRefused("the driver refuses its counters")

    def time(session: Session, iteration: Iteration) -> ProfileRecord:
        kernels = (KernelTime("main_kernel", 9.5),)
        return msgspec.structs.replace(session.blank(iteration), outcome=ProfileOutcome.TIMED, kernels=kernels)

    monkeypatch.setattr(Session, "count", refuse)
    monkeypatch.setattr(Session, "time", time)
    results = profile(plan(benched, "iter001", "iter002"), Quiet())
    assert tried == ["iter001_tiles_of_16"], "once is enough"
    assert results.exit_code is ExitCode.INFRASTRUCTURE
    assert results.remedy == "the driver refuses its counters"
    assert [record.outcome for record in profiles(benched)] == [ProfileOutcome.TIMED, ProfileOutcome.TIMED]
    assert "no counters, main_kernel 9.5 µs" in words.line(profiles(benched)[0])
    assert set(bounds(benched).values()) == {None}


def test_a_failure_is_recorded_and_does_not_stop_the_others(
    benched: Checkout, counting: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    count = Session.count

    def sometimes(session: Session, iteration: Iteration, ncu: Ncu) -> ProfileRecord:
        if iteration.number == 1:
            raise Refusal("the launch ran other_kernel")
        return count(session, iteration, ncu)

    monkeypatch.setattr(Session, "count", sometimes)
    results = profile(plan(benched, "iter001", "iter002"), Quiet())
    assert results.exit_code is ExitCode.REJECTED
    assert [record.outcome for record in profiles(benched)] == [ProfileOutcome.REFUSED, ProfileOutcome.PROFILED]


def test_a_profile_is_reused_while_nothing_changed(benched: Checkout, counting: list[str]) -> None:
    profile(plan(benched, "iter001"), Quiet())
    (record,) = profiles(benched)
    whole = msgspec.structs.replace(record, csv_sha256=sha256(b"figures").hexdigest())
    append(benched.tree.profiles("cpu", SHAPE, MODEL), msgspec.structs.replace(whole, recorded_at="2999"))
    assert [each.recorded_at for each in profile(plan(benched, "iter001"), Quiet()).records] == ["2999"]
    (table,) = benched.root.rglob("ncu_iter001.csv")
    table.write_text("other figures")
    assert [each.recorded_at for each in profile(plan(benched, "iter001"), Quiet()).records] != ["2999"]
    assert counting == ["iter001_tiles_of_16"] * 2


def test_another_run_on_the_tree_is_not_disturbed(benched: Checkout, counting: list[str]) -> None:
    with (benched.tree.folder("cpu") / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(InfrastructureError, match="another run is measuring"):
            profile(plan(benched, "iter001"), Quiet())
    assert counting == []


def test_nothing_measured_has_no_leader(checkout: Checkout) -> None:
    checkout.ladder()
    with pytest.raises(UsageError, match="run bench first, or name one by --iter"):
        chosen_iterations(checkout.tree, SelectionOptions(gpu="cpu"))


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--gpu", "cpu"), 3, "profile reads a GPU's counters, and a CPU has none that ncu reads"),
        (("--gpu", "h200", "--deadline", "0"), 2, '"0.0" for --deadline. Must be > 0.'),
        (("--gpu", "h100x"), 2, "unknown GPU key 'h100x'"),
    ],
)
def test_the_command_line_says_what_is_missing(
    checkout: Checkout, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = checkout.run("profile", *arguments)
    assert done.returncode == code
    assert said in one_line(done.stderr)
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.gpu
@pytest.mark.slow
def test_a_profile_on_this_gpu(checkout: Checkout) -> None:
    """The real ncu, where there is one and the driver opens its counters; else the name and the duration."""
    key, shape = detect(), "matmul_bf16fp32_1024x1024x1024"
    checkout.write("iter000_torch_matmul", BASELINE, shape, gpu=key)
    checkout.write("iter001_stock", STOCK, shape, gpu=key)
    done = checkout.run("profile", "--gpu", key, "--iter", "1", "--json")
    (record,) = answer(done.stdout)
    assert [kernel["name"] for kernel in record["kernels"]] == ["main_kernel"], done.stderr
    assert 0 < record["duration_us"] < 1000
    assert (record["outcome"], done.returncode) in (("profiled", 0), ("timed", 3)), done.stderr
    library = checkout.run("profile", "--gpu", key, "--iter", "0", "--json")
    assert library.returncode == 1
    assert "no generated source" in answer(library.stdout)[0]["reason"]
