"""An iteration run by hand: the same judge and the same record, and the lines that its contract promises."""

import sys
from pathlib import Path
from typing import NoReturn

from harness import gpus, scripts
from harness.candidate import Settings
from harness.cli.app import guarded
from harness.errors import ExitCode
from harness.progress import Quiet
from harness.records import Record, Stage, Status
from harness.run import Plan, run
from harness.tree import Tree


def run_by_hand(path: Path) -> NoReturn:
    """Judge one iteration, print its lines, exit with its code."""
    sys.exit(int(guarded(lambda: _print(_measure(path, Stage.BENCH)))))


def judge(path: Path, upto: str) -> bool:
    """Judge one iteration up to a stage, print its lines; whether it passed."""
    return guarded(lambda: _print(_measure(path, Stage(upto)))) is ExitCode.PASSED


def _measure(path: Path, upto: Stage) -> Record:
    tree = Tree.of(path)
    iteration = tree.parse(path)
    gpu, device = gpus.resolve(iteration.gpu)
    return run(Plan(tree, gpu, device, (iteration,), Settings.of(gpu), upto=upto, again=True), Quiet()).records[0]


def _print(record: Record) -> ExitCode:
    for line in scripts.timing_lines(record):
        print(line)
    return ExitCode.PASSED if record.status is Status.PASSED else ExitCode.REJECTED
