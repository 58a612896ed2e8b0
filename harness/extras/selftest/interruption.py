"""Interruption: stop runs at random moments, run them again, and count records lost or doubled and what is left."""

import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Final

import msgspec

from harness.catalog.tree import Selection, Tree
from harness.errors import ExitCode
from harness.extras.selftest.scratch import checkout, processes, scratch_folder, start
from harness.machine.progress import Reporter
from harness.records.results import Record
from harness.records.store import read

SETTLE_S: Final = 5.0
LONGEST_S: Final = 600.0


class Finding(msgspec.Struct, frozen=True):
    """What stopping runs did to one problem's records: ``kills`` by SIGKILL, ``stops`` by SIGINT or SIGTERM."""

    problem: str
    kills: int
    stops: int
    lost: int  # reported as done before a signal, and not on the disk after it
    doubled: int
    unreadable: int
    unanswered: int  # stops that did not end with the exit code of one
    left_processes: int
    left_files: int  # in the temporary folder, after a run to the end
    continued: bool  # the last run, not stopped, completed every iteration

    @property
    def sound(self) -> bool:
        wrong = (self.lost, self.doubled, self.unreadable, self.unanswered, self.left_processes, self.left_files)
        return self.continued and not any(wrong)


def interrupt(tree: Tree, gpu: str, shape: str, kills: int, stops: int, reporter: Reporter) -> Finding:
    """Stop runs of one problem, each at a random moment of its life, starting afresh when all is done."""
    lost = doubled = unreadable = unanswered = left = 0
    signals = [signal.SIGKILL] * kills + [random.choice((signal.SIGINT, signal.SIGTERM)) for _ in range(stops)]
    random.shuffle(signals)
    with checkout(tree, gpu, shape) as copy:
        total = len(copy.scan(gpu, Selection(shape=shape))[0])
        command = ("-m", "harness", "bench", "--gpu", gpu, "--shape", shape, "--budget", "0.2")
        life_s = 20.0
        for number, each in enumerate(signals, start=1):
            reporter.doing(f"{each.name}, {number} of {len(signals)}")
            log = copy.root / f"output-{number}.txt"
            run = start(copy, *command, output=log)
            began = time.monotonic()
            try:
                run.wait(random.uniform(0.1, life_s))
                life_s = max(4.0, time.monotonic() - began)  # it ended by itself: aim earlier
            except subprocess.TimeoutExpired:
                ready = log.stat().st_size > 0  # before it says anything, Python is still starting
                run.send_signal(each)  # to the parent alone: the others must find out by themselves
                code = run.wait(LONGEST_S)
                unanswered += ready and each is not signal.SIGKILL and code not in (0, ExitCode.INFRASTRUCTURE)
            left += _left(copy)
            records, problems = _records(copy, gpu)
            unreadable += len([line for line in problems if "torn last line" not in line])
            names = [(record.shape_key, record.iteration) for record in records]
            doubled += len(names) - len(set(names))
            lost += len(_reported(log) - set(names))
            if _done(records, shape) == total:
                for path in copy.all_records(gpu):
                    path.unlink()
        reporter.doing("the run after the last signal")
        last = start(copy, *command)
        continued = last.wait(LONGEST_S) in (0, 1) and _done(_records(copy, gpu)[0], shape) == total
        files = len(list(scratch_folder(copy).iterdir()))
    return Finding(shape, kills, stops, lost, doubled, unreadable, unanswered, left, files, continued)


def line(finding: Finding) -> str:
    return (
        f"{finding.problem}: {finding.kills} kills, {finding.stops} stops, {finding.lost} records lost, "
        f"{finding.doubled} doubled, {finding.unreadable} unreadable, {finding.unanswered} stops unanswered, "
        f"{finding.left_processes} processes and {finding.left_files} files left; "
        f"{'continues' if finding.continued else 'DOES NOT CONTINUE'}"
    )


def _records(tree: Tree, gpu: str) -> tuple[list[Record], list[str]]:
    found: list[Record] = []
    problems: list[str] = []
    for path in tree.all_records(gpu):
        records, complaints = read(path, Record)
        found += records
        problems += complaints
    return found, problems


def _done(records: list[Record], shape: str) -> int:
    """How many iterations of the problem have a record; beside a memory-bound one the copy is measured too."""
    return len({record.iteration for record in records if record.shape_key == shape})


def _reported(log: Path) -> set[tuple[str, str]]:
    """Problem and iteration of each outcome that the run had printed."""
    words = (line.split() for line in log.read_text(errors="replace").splitlines())
    told = (each for each in words if len(each) > 3 and each[0] in ("passed", "rejected", "failed"))
    return {(each[1], each[3].rstrip(":")) for each in told}


def _left(tree: Tree) -> int:
    """Processes of the scratch checkout that are alive a while after the kill."""
    until = time.monotonic() + SETTLE_S
    while (alive := processes(tree)) and time.monotonic() < until:
        time.sleep(0.05)
    return alive
