"""Interruption: kill a run at random moments, run it again, and count records lost or doubled and processes left."""

import os
import random
import subprocess
import time
from pathlib import Path
from typing import Final

import msgspec

from harness.progress import Reporter
from harness.records import Record, read
from harness.selftest.scratch import checkout, start
from harness.tree import Selection, Tree

SETTLE_S: Final = 5.0
LONGEST_S: Final = 600.0


class Finding(msgspec.Struct, frozen=True):
    """What ``kills`` interruptions did to one problem's records."""

    problem: str
    kills: int
    lost: int  # reported as done before a kill, and not on the disk after it
    doubled: int
    unreadable: int
    left_processes: int
    continued: bool  # the last run, not killed, completed every iteration

    @property
    def sound(self) -> bool:
        return self.continued and not (self.lost or self.doubled or self.unreadable or self.left_processes)


def interrupt(tree: Tree, gpu: str, shape: str, kills: int, reporter: Reporter) -> Finding:
    """SIGKILL ``kills`` runs of one problem, each at a random moment of its life, starting afresh when all is done."""
    lost = doubled = unreadable = left = 0
    with checkout(tree, gpu, shape) as copy:
        total = len(copy.scan(gpu, Selection(shape=shape))[0])
        command = ("-m", "harness", "bench", "--gpu", gpu, "--shape", shape, "--budget", "0.2")
        life_s = 20.0
        for number in range(kills):
            reporter.doing(f"kill {number + 1} of {kills}")
            log = copy.root / f"output-{number}.txt"
            run = start(copy, *command, output=log)
            began = time.monotonic()
            try:
                run.wait(random.uniform(0.1, life_s))
                life_s = max(4.0, time.monotonic() - began)  # it ended by itself: aim earlier
            except subprocess.TimeoutExpired:
                run.kill()  # the parent alone: the others must find out by themselves
                run.wait()
            left += _left(copy)
            records, problems = _records(copy, gpu)
            unreadable += len([line for line in problems if "torn last line" not in line])
            names = [record.iteration for record in records]
            doubled += len(names) - len(set(names))
            lost += len(_reported(log) - set(names))
            if len(set(names)) == total:
                for path in copy.all_records(gpu):
                    path.unlink()
        reporter.doing("the run after the last kill")
        last = start(copy, *command)
        continued = last.wait(LONGEST_S) in (0, 1) and len({r.iteration for r in _records(copy, gpu)[0]}) == total
    return Finding(shape, kills, lost, doubled, unreadable, left, continued)


def line(finding: Finding) -> str:
    return (
        f"{finding.problem}: {finding.kills} kills, {finding.lost} records lost, {finding.doubled} doubled, "
        f"{finding.unreadable} unreadable, {finding.left_processes} processes left; "
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


def _reported(log: Path) -> set[str]:
    """Iterations whose outcome the run had printed."""
    words = (line.split() for line in log.read_text(errors="replace").splitlines())
    return {each[3].rstrip(":") for each in words if len(each) > 3 and each[0] in ("passed", "rejected", "failed")}


def _left(tree: Tree) -> int:
    """Processes of the scratch checkout that are alive a while after the kill."""
    until = time.monotonic() + SETTLE_S
    mark = f"TILEBENCH_ROOT={tree.root}".encode()
    while (alive := _marked(mark)) and time.monotonic() < until:
        time.sleep(0.05)
    return alive


def _marked(mark: bytes) -> int:
    count = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                zombie = (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
                count += not zombie and mark in (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
    return count
