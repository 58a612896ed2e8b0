"""Interruption: stop runs at random moments, run them again, and count what is lost, doubled or left behind."""

import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Final

import msgspec

from harness.catalog import gpus
from harness.catalog.tree import Selection, Tree
from harness.errors import ExitCode
from harness.extras.selftest.commands import code_of, copied_ladder, processes_left, started, temporary_folder
from harness.judge.fault_attribution import is_retried
from harness.machine.progress import Reporter
from harness.records.results import Record
from harness.records.store import read

WAIT_FOR_PROCESSES_S: Final = 5.0
LONGEST_RUN_S: Final = 600.0


class InterruptionFinding(msgspec.Struct, frozen=True):
    """What signals did to one problem's records: ``kills`` by SIGKILL, ``stops`` by SIGINT or SIGTERM."""

    problem: str
    kills: int
    stops: int
    lost: int  # outcomes printed before a signal and missing on the disk after it
    doubled: int
    unreadable: int
    unanswered: int  # stops after which the run ended with another exit code than a stopped run's
    left_processes: int
    left_files: int  # in the temporary folder, after the last run
    continued: bool  # whether the last run, which nothing stops, completed every iteration

    @property
    def sound(self) -> bool:
        wrong = (self.lost, self.doubled, self.unreadable, self.unanswered, self.left_processes, self.left_files)
        return self.continued and not any(wrong)


def interrupt(tree: Tree, gpu: str, shape: str, kills: int, stops: int, reporter: Reporter) -> InterruptionFinding:
    """Stop runs of one problem, each at a random moment; the records are removed whenever all iterations are done."""
    lost = doubled = unreadable = unanswered = left = 0
    signals = [signal.SIGKILL] * kills + [random.choice((signal.SIGINT, signal.SIGTERM)) for _ in range(stops)]
    random.shuffle(signals)
    with copied_ladder(tree, gpu, shape) as copy:
        total = len(copy.scan(gpu, Selection(shape=shape))[0])
        command = ("-m", "harness", "bench", "--gpu", gpu, "--shape", shape, "--budget", "0.2", "--no-opponents")
        run_s = 20.0
        for number, each in enumerate(signals, start=1):
            reporter.doing(f"{each.name}, {number} of {len(signals)}")
            log = copy.root / f"output-{number}.txt"
            began = time.monotonic()
            with started(copy, *command, output=log) as run:
                try:
                    run.wait(random.uniform(0.1, run_s))
                    run_s = max(4.0, time.monotonic() - began)  # it ended before the signal: send the next one earlier
                except subprocess.TimeoutExpired:
                    listens = log.stat().st_size > 0  # a run that has printed nothing may still be starting Python
                    run.send_signal(each)  # to the parent alone: its children must end by themselves
                    code = code_of(run, LONGEST_RUN_S)
                    unanswered += listens and each is not signal.SIGKILL and code not in (0, ExitCode.INFRASTRUCTURE)
            left += processes_left(copy, WAIT_FOR_PROCESSES_S)
            records, problems = _records(copy, gpu)
            unreadable += sum("torn last line" not in problem for problem in problems)
            keys = [record.key for record in records if not is_retried(record.cause, gpus.find(gpu))]
            doubled += len(keys) - len(set(keys))
            lost += len(_reported(log) - {record.key for record in records})
            if _done(records, shape) == total:
                for path in copy.all_records(gpu):
                    path.unlink()
        reporter.doing("the run after the last signal")
        with started(copy, *command) as run:
            code = code_of(run, LONGEST_RUN_S)
        continued = code in (0, 1) and _done(_records(copy, gpu)[0], shape) == total
        files = len(list(temporary_folder(copy).iterdir()))
    return InterruptionFinding(shape, kills, stops, lost, doubled, unreadable, unanswered, left, files, continued)


def line(finding: InterruptionFinding) -> str:
    return (
        f"{finding.problem}: {finding.kills} kills, {finding.stops} stops, {finding.lost} records lost, "
        f"{finding.doubled} doubled, {finding.unreadable} unreadable, {finding.unanswered} stops unanswered, "
        f"{finding.left_processes} processes and {finding.left_files} files left; "
        f"{'continues' if finding.continued else 'DOES NOT CONTINUE'}"
    )


def _records(tree: Tree, gpu: str) -> tuple[list[Record], list[str]]:
    read_files = [read(path, Record) for path in tree.all_records(gpu)]
    return [each for records, _ in read_files for each in records], [each for _, bad in read_files for each in bad]


def _done(records: list[Record], shape: str) -> int:
    """How many iterations of the problem have a record. A memory-bound problem adds records of its copy."""
    return len({record.key for record in records if record.shape_key == shape})


def _reported(log: Path) -> set[tuple[str, str, str]]:
    """Problem, model and name of each outcome that the run printed; a misplaced file's line has no such three."""
    words = (line.split() for line in log.read_text(errors="replace").splitlines())
    told = (each for each in words if len(each) > 3 and each[0] in ("passed", "rejected", "failed"))
    return {(each[1], each[2], each[3].rstrip(":")) for each in told if not each[1].endswith(":")}
