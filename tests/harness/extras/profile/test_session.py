"""One profile from end to end, with a stand-in for ncu: each way to fail, and that nothing older is lost to it."""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil
import pytest

from harness.catalog.gpus import find
from harness.catalog.tree import Iteration, Tree
from harness.errors import InfrastructureError
from harness.evidence import toolchain
from harness.extras.profile.children import Children, Stopped
from harness.extras.profile.launch import Job, Launched
from harness.extras.profile.ncu import CountersRefused, Ncu, NcuMissing, require
from harness.extras.profile.session import Refusal, Session
from harness.records.environment import describing
from harness.records.profiles import Bound, ProfileOutcome, ProfileRecord
from tests.harness.checkout import ROOT, SCALAR, Checkout, until
from tests.harness.extras.profile.reports import SHAPE, STOCK, STOCK_CONFIG, changed, rows, text

FAKE = Path(__file__).with_name("fake_ncu.py")
SOURCE = f'''"""Tiles of 128x256 in four stages."""

from kernels.gemm import pipelined

PARENT = "iter000_torch_matmul"
CONFIG = dict({STOCK_CONFIG})


def build(problem):
    return pipelined(problem, **CONFIG)
'''

Fake = Callable[..., None]


@pytest.fixture
def iteration(tree: Tree) -> Iteration:
    folder = tree.folder("h200") / "srcs" / SHAPE / "me"
    folder.mkdir(parents=True)
    (folder / "iter000_torch_matmul.py").write_text("")
    path = folder / "iter005_wide_tiles.py"
    path.write_text(SOURCE)
    return tree.parse(path)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Put the stand-in on PATH, and say how it is to behave."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "ncu").write_text(f'#!/bin/sh\nexec {sys.executable} {FAKE} "$@"\n')
    (folder / "ncu").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "commands.txt"))
    monkeypatch.setenv("FAKE_REPORT", str(STOCK))

    def behave(how: str = "good", **surroundings: str) -> None:
        for name, value in {"FAKE_NCU": how, **surroundings}.items():
            monkeypatch.setenv(name, value)

    behave()
    return behave


@pytest.fixture
def session(tree: Tree, tmp_path: Path) -> Session:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    gpu = find("h200")
    return Session(tree, gpu, None, describing(ROOT, gpu, None), Children(), scratch, deadline_s=20)


def test_a_profile(iteration: Iteration, session: Session, fake: Fake, tree: Tree, tmp_path: Path) -> None:
    record = session.count(iteration, require())
    assert (record.outcome, record.bound, record.limiter) == (ProfileOutcome.PROFILED, Bound.COMPUTE, "tensor pipe")
    assert [(kernel.name, kernel.duration_us) for kernel in record.kernels] == [("main_kernel", 200.512)]
    assert record.profiler == "ncu 2025.3.1.0"
    assert record.metrics["gpu__time_duration.sum"].unit == "s"
    assert "tma_store" in {idea.tag for idea in record.ideas}, "CONFIG is read: its epilogue is direct"
    table = tree.root / f"tuning/h200/tilelang/perf/{SHAPE}/me/ncu_iter005.csv"
    assert table.read_bytes() == STOCK.read_bytes()
    assert sorted(each.name for each in table.parent.iterdir()) == ["ncu_iter005.csv", "ncu_iter005.ncu-rep"]
    assert msgspec.json.decode(msgspec.json.encode(record), type=ProfileRecord) == record
    first, second = (tmp_path / "commands.txt").read_text().splitlines()
    for option in (
        "--target-processes all",
        "--set full",
        "--clock-control none",
        "--profile-from-start off",
        "--force-overwrite",
        "-m harness.extras.profile.launch",
    ):
        assert option in first
    assert second.endswith("--csv --page raw")


def test_several_kernels_in_one_launch(iteration: Iteration, session: Session, fake: Fake, tmp_path: Path) -> None:
    """Split-K and its reduction: both once, the durations add up, the longer one is judged."""
    short = changed(rows(STOCK), {"Kernel Name": "reduce_kernel", "gpu__time_duration.sum": "50.0"})[2]
    (tmp_path / "two.csv").write_text(text([*rows(STOCK), short]))
    fake(FAKE_REPORT=str(tmp_path / "two.csv"), FAKE_KERNELS="main_kernel,reduce_kernel")
    record = session.count(iteration, require())
    assert record.duration_us == pytest.approx(250.512)
    assert record.evidence[0] == "main_kernel is 80% of 250.5 µs in several kernels"


@pytest.mark.parametrize(
    ("kernels", "reported"),
    [
        ("main_kernel", "distribution_elementwise_grid_stride_kernel"),  # what eight reports of a public tree hold
        ("main_kernel,reduce_kernel", "main_kernel"),
        ("other_kernel", "main_kernel"),
    ],
)
def test_a_report_of_another_kernel_is_refused(
    iteration: Iteration, session: Session, fake: Fake, tree: Tree, tmp_path: Path, kernels: str, reported: str
) -> None:
    (tmp_path / "other.csv").write_text(text(changed(rows(STOCK), {"Kernel Name": reported})))
    fake(FAKE_REPORT=str(tmp_path / "other.csv"), FAKE_KERNELS=kernels)
    with pytest.raises(Refusal, match=f"the launch ran {reported}, where the iteration's source has"):
        session.count(iteration, require())
    assert not tree.ncu(iteration, "csv").exists()


@pytest.mark.slow
def test_the_program_runs_under_it_for_real(checkout: Checkout, fake: Fake, tmp_path: Path) -> None:
    """On the CPU key, where kernels have no names to expect: built, verified, launched, then refused for its name."""
    fake("runs")
    gpu = find("cpu")
    iteration = checkout.tree.parse(checkout.write("iter001_tiles", SCALAR.format(block=16)))
    session = Session(checkout.tree, gpu, None, describing(ROOT, gpu, None), Children(), tmp_path, deadline_s=60)
    with pytest.raises(Refusal, match="the launch ran main_kernel, where the iteration's source has none"):
        session.count(iteration, require())
    (outcome,) = tmp_path.glob("*/outcome.json")
    found = msgspec.json.decode(outcome.read_bytes(), type=Launched)
    assert [trial.name for trial in found.trials] == ["profiled inputs", "profiled launch"]


def test_one_kernel_launched_twice_is_refused(
    iteration: Iteration, session: Session, fake: Fake, tmp_path: Path
) -> None:
    (tmp_path / "twice.csv").write_text(text([*rows(STOCK), rows(STOCK)[2]]))
    fake(FAKE_REPORT=str(tmp_path / "twice.csv"))
    with pytest.raises(Refusal, match="ran main_kernel, main_kernel, where the iteration's source has main_kernel"):
        session.count(iteration, require())


FAILURES = [
    ("permission", {}, CountersRefused, r"ERR_NVGPUCTRPERM.*NVreg_RestrictProfilingToAdminUsers=0.*SYS_ADMIN"),
    ("busy", {}, InfrastructureError, "another profiler holds the counters.*dcgmi profile --pause"),
    ("nothing", {}, InfrastructureError, "wrote no report of iter005_wide_tiles: ncu gave no reason"),
    (
        "nothing",
        {"FAKE_SAYS": "1"},
        InfrastructureError,
        "wrote no report of iter005_wide_tiles: ==ERROR== Failed to write",
    ),
    ("crash", {}, Refusal, r"ended with code 11 .*\(it printed: CUDA error: an illegal memory access"),
    ("wrong", {}, Refusal, "max_abs_err=1 is over 0.01"),
    ("import_fails", {}, InfrastructureError, "cannot read its own report .*==ERROR== Failed to import"),
    ("cut", {}, InfrastructureError, r"^tuning/h200/tilelang/perf/.*/ncu_iter005.csv:\d: .*the file is cut"),
]


@pytest.mark.parametrize(("how", "surroundings", "kind", "said"), FAILURES)
def test_each_failure_is_one_line_and_destroys_nothing(
    iteration: Iteration,
    session: Session,
    fake: Fake,
    tree: Tree,
    how: str,
    surroundings: dict[str, str],
    kind: type[Exception],
    said: str,
) -> None:
    for suffix in ("csv", "ncu-rep"):
        tree.ncu(iteration, suffix).parent.mkdir(parents=True, exist_ok=True)
        tree.ncu(iteration, suffix).write_text("what was profiled before")
    fake(how, **surroundings)
    with pytest.raises(kind, match=said) as error:
        session.count(iteration, require())
    assert "\n" not in str(error.value)
    folder = tree.ncu(iteration, "csv").parent
    assert {each.name: each.read_text() for each in folder.iterdir()} == {
        "ncu_iter005.csv": "what was profiled before",
        "ncu_iter005.ncu-rep": "what was profiled before",
    }


def test_ncu_that_hangs_ends_with_all_it_started(
    iteration: Iteration, session: Session, fake: Fake, tree: Tree
) -> None:
    fake("hangs")
    impatient = Session(tree, session.gpu, None, session.environment, session.children, session.scratch, deadline_s=1.5)
    with pytest.raises(InfrastructureError, match=r"iter005_wide_tiles was not profiled within 1.5 s; see --deadline"):
        impatient.count(iteration, require())
    child = int((tree.ncu(iteration, "csv").parent / "child.pid").read_text())
    assert until(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE)


def test_a_run_that_is_stopped_ends_its_programs(tmp_path: Path) -> None:
    children, ended = Children(), []

    def work() -> None:
        with pytest.raises(Stopped):
            children.run(["/bin/sh", "-c", f"echo $$ > {tmp_path}/pid; sleep 600"], dict(os.environ), tmp_path, 60)
        ended.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    assert until(lambda: (tmp_path / "pid").is_file() and (tmp_path / "pid").read_text())
    children.stop()
    thread.join()
    assert ended == [True]
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


def test_a_source_that_changes_meanwhile_is_refused(
    iteration: Iteration, session: Session, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Ncu.table

    def edited(*arguments: object) -> str:
        iteration.path.write_text(SOURCE + "\n")
        return table(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Ncu, "table", edited)
    with pytest.raises(Refusal, match="changed while it was profiled"):
        session.count(iteration, require())


def test_no_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(toolchain, "ncu_path", lambda: None)
    with pytest.raises(NcuMissing, match="install Nsight Compute; --no-counters gives names and durations"):
        require()


def test_where_ncu_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def place(path: Path) -> Path:
        path.parent.mkdir(parents=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return path

    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    cuda, nsight = tmp_path / "cuda", tmp_path / "nsight"
    monkeypatch.setattr(toolchain, "CUDA_FOLDER", cuda)
    monkeypatch.setattr(toolchain, "NSIGHT_FOLDERS", nsight)
    assert toolchain.ncu_path() is None
    place(nsight / "2024.3.2" / "ncu")
    newest = place(nsight / "2024.10.1" / "ncu")
    assert toolchain.ncu_path() == newest, "10 is after 3"
    toolkit = place(cuda / "bin" / "ncu")
    assert toolchain.ncu_path() == toolkit
    named = place(tmp_path / "home" / "bin" / "ncu")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    assert toolchain.ncu_path() == named


def test_a_job_and_an_outcome_survive_their_files() -> None:
    job = Job("/root", "/root/a.py", "h200", "/s/gate", "/s/outcome.json", 1, None)
    assert msgspec.json.decode(msgspec.json.encode(job), type=Job) == job
    found = Launched(kernels=("main_kernel",), seconds={"build": 3.2})
    assert msgspec.json.decode(msgspec.json.encode(found), type=Launched) == found
