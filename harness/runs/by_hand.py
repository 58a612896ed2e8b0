"""An iteration that is run as a script: the same judge, the same record, and the lines that its contract promises."""

import sys
from pathlib import Path
from typing import NoReturn

from harness.catalog import gpus
from harness.catalog.fitting import require_fit
from harness.catalog.tree import Tree
from harness.errors import ExitCode
from harness.judge.candidate import Settings
from harness.machine.guard import guarded
from harness.machine.progress import Quiet
from harness.records.base import Stage, exit_code_of
from harness.records.results import Record
from harness.runs import companion_files
from harness.runs.run import Plan, run


def run_by_hand(path: Path) -> NoReturn:
    sys.exit(int(guarded(lambda: _print(_measure(path, Stage.BENCH)))))


def judge(path: Path, upto: str) -> bool:
    """Judge an iteration up to a stage and print its lines; returns whether it passed."""
    return guarded(lambda: _print(_measure(path, Stage(upto)))) is ExitCode.PASSED


def _measure(path: Path, upto: Stage) -> Record:
    tree = Tree.of(path)
    iteration = tree.parse(path)
    gpu, device = gpus.resolve(iteration.gpu)
    require_fit([(tree.short(path), iteration.problem)], gpu, device)
    return run(Plan(tree, gpu, device, (iteration,), Settings.of(gpu), upto=upto, again=True), Quiet()).records[0]


def _print(record: Record) -> ExitCode:
    for line in companion_files.timing_lines(record):
        print(line)
    return exit_code_of([(record.status, record.cause)])
