"""Faults of the machine, caused for real: the messages, the records, the leftovers, and the next run."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.records.base import Cause, Status
from tests.harness.checkout import BUDGET, MODEL, SCALAR, SHAPE, Checkout, one_line

LADDER = ["iter000_torch_matmul", "iter001_tiles_of_8", "iter002_tiles_of_16", "iter003_tiles_of_32"]

# Each is run in the parent first, and makes one thing die once, at iter001.
KILL_REFEREE = """
import os, harness.judge.candidate as candidate
seat, seats = candidate.Referees.seat, []
def seat_and_kill(self, problem):
    referee = seat(self, problem)
    seats.append(referee)
    if len(seats) == 5:
        os.kill(referee.pid, 9)
    return referee
candidate.Referees.seat = seat_and_kill
"""
KILL_BASELINE = """
import os, harness.judge.pipeline as pipeline
class Mortal(pipeline.BaselineProcess):
    made = 0
    def __init__(self, *arguments):
        super().__init__(*arguments)
        Mortal.made += 1
        self.number = Mortal.made
    def introduce(self, *arguments):
        super().introduce(*arguments)
        if self.number == 2:
            os.kill(self.pid, 9)
pipeline.BaselineProcess = Mortal
"""
KILL_FORKSERVER = """
import os, harness.judge.pipeline as pipeline
from multiprocessing import forkserver
class Watched(pipeline.BaselineProcess):
    made = 0
    def introduce(self, *arguments):
        super().introduce(*arguments)
        Watched.made += 1
        if Watched.made == 3:  # of the second batch, so that another is built
            os.kill(forkserver._forkserver._forkserver_pid, 9)
pipeline.BaselineProcess = Watched
"""
REMOVE_SCRATCH = """
import shutil, harness.judge.pipeline as pipeline
class Robbed(pipeline.Contestant):
    made = 0
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        Robbed.made += 1
        if Robbed.made == 2:
            shutil.rmtree(self.scratch)
pipeline.Contestant = Robbed
"""


def nothing_left(checkout: Checkout) -> None:
    assert checkout.processes() == []
    assert checkout.leftovers() == []


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        pytest.param(KILL_REFEREE, "the referee was killed by SIGKILL", id="referee", marks=pytest.mark.slow),
        pytest.param(
            KILL_BASELINE,
            "the baseline's process was killed by SIGKILL; the same command",
            id="baseline",
            marks=pytest.mark.slow,
        ),
        pytest.param(KILL_FORKSERVER, "the forkserver, which all processes of a run come from, was", id="forkserver"),
        pytest.param(
            REMOVE_SCRATCH, "was removed while it ran; the same command", id="scratch", marks=pytest.mark.slow
        ),
    ],
)
def test_what_the_harness_stands_on_dies_once_and_the_iteration_gets_another_turn(
    checkout: Checkout, settings: str, says: str
) -> None:
    checkout.ladder((8, 16, 32))
    done = checkout.run("bench", *BUDGET, settings=settings)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    lost = [record for record in checkout.records() if record.status is not Status.PASSED]
    assert lost, "nothing died"
    assert {record.cause for record in lost} == {Cause.REFEREE}
    said = [says in (record.reason or "") for record in lost]
    assert any(said) if settings is KILL_FORKSERVER else all(said)  # its processes say that they ended, each for itself
    assert done.stderr.count("; once more at the end") == len(lost)
    assert sorted(each.iteration for each in checkout.records() if each.status is Status.PASSED) == LADDER
    nothing_left(checkout)


@pytest.mark.slow
def test_what_dies_again_and_again_is_held_against_nobody_and_the_next_run_goes_on(checkout: Checkout) -> None:
    checkout.ladder((8, 16, 32))
    done = checkout.run("bench", *BUDGET, settings=KILL_BASELINE.replace("number == 2", "number > 1"))
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    found = [(record.iteration, record.cause) for record in checkout.records()]
    first, *others = LADDER
    assert found == [(first, None), *2 * [(each, Cause.REFEREE) for each in others]]
    nothing_left(checkout)
    again = checkout.run("bench", *BUDGET)
    assert again.returncode == 0, again.stderr
    assert again.stderr.count("(recorded before)") == 1
    assert len(checkout.records()) == len(found) + len(others)


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Callable[[str], None]]:
    """A small file system on a folder; yields a function that changes its size."""
    folder.mkdir(parents=True, exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tilebench-test", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a disk that can be filled needs the right to mount one")

    def resize(to: str) -> None:
        subprocess.run(["mount", "-o", f"remount,size={to}", str(folder)], check=True)

    try:
        yield resize
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.slow
def test_a_full_disk_under_the_records(checkout: Checkout) -> None:
    checkout.ladder((8, 16, 32))
    records = checkout.tree.records("cpu", SHAPE, MODEL)
    with small_disk(records.parent, "16k") as resize:
        done = checkout.run("bench", *BUDGET)
        assert done.returncode == 3
        said = one_line(done.stderr)
        assert "No space left on device; free some space; what is recorded stays, and the same" in said, said
        assert str(records.parent) in said
        kept = checkout.records()  # each line is whole
        nothing_left(checkout)
        resize("4m")
        again = checkout.run("bench", *BUDGET)
        assert again.returncode == 0, again.stderr
        assert checkout.records()[: len(kept)] == kept
        assert sorted(record.iteration for record in checkout.records()) == LADDER
        assert records.with_suffix(".tsv").read_text().count("\n") == len(LADDER) + 1


@pytest.mark.slow
def test_a_full_disk_under_the_scratch_folders_is_held_against_nobody(checkout: Checkout) -> None:
    checkout.ladder((8, 16, 32))
    with small_disk(checkout.root / "tmp", "1m") as resize:
        filling = checkout.root / "tmp" / "somebody-elses"
        with filling.open("wb") as file:
            file.write(bytes((1 << 20) - 16384))
        done = checkout.run("bench", *BUDGET)
        assert done.returncode == 3
        assert f"{checkout.root}/tmp is full; free some space, or set TMPDIR" in one_line(done.stderr)
        assert {record.status for record in checkout.records()} <= {Status.PASSED}
        assert checkout.processes() == []
        filling.unlink()
        resize("64m")
        again = checkout.run("bench", *BUDGET)
        assert again.returncode == 0, again.stderr
        nothing_left(checkout)


@pytest.mark.slow
def test_a_record_of_what_was_built_that_is_gone_or_garbled_is_found_out_anew(checkout: Checkout) -> None:
    checkout.ladder((8, 16, 32))
    assert checkout.run("bench", *BUDGET).returncode == 0
    builds = checkout.tree.builds("cpu", SHAPE, MODEL)
    for content in (b"", b'{"schema": 1, "what"\n\xff\xfe\n', None):
        if content is None:
            builds.unlink()
        else:
            builds.write_bytes(content)
        done = checkout.run("build", "--gpu", "cpu")
        assert done.returncode == 0, done.stderr
        assert "4 of 4 passed" in done.stdout


def test_a_build_that_hangs_does_not_hold_up_the_end(checkout: Checkout) -> None:
    """The run fails at its first record, while a build would take minutes more."""
    checkout.ladder((8,))
    hanging = SCALAR.format(block=16).replace("    return", "    while True:\n        pass\n    return")
    checkout.write("iter002_hangs", hanging)
    checkout.tree.records("cpu", SHAPE, MODEL).mkdir(parents=True)
    done = checkout.run("bench", *BUDGET, "--build-deadline", "30", seconds=100)
    assert done.returncode == 3
    nothing_left(checkout)


@pytest.mark.slow
def test_a_tilelang_that_cannot_be_imported_is_nobodys_failure(checkout: Checkout) -> None:
    checkout.ladder((8, 16))
    broken = checkout.root / "broken" / "tilelang"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise OSError('libtvm.so: cannot open shared object file')\n")
    settings = f"import os, sys\nfirst = '{broken.parent}'\nsys.path.insert(0, first)\n"
    settings += "os.environ['PYTHONPATH'] = first + ':' + os.environ['PYTHONPATH']"
    done = checkout.run("verify", "--gpu", "cpu", settings=settings)
    assert done.returncode == 3, done.stderr
    said = one_line(done.stderr)
    assert "cannot be imported: OSError: libtvm.so: cannot open shared object file; try make clean" in said
    nothing_left(checkout)
    whole = checkout.run("verify", "--gpu", "cpu")
    assert whole.returncode == 0, whole.stderr
    assert "recorded before" not in whole.stderr
    nothing_left(checkout)
