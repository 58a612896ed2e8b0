"""A fleet of simulated GPUs on a notebook, with the stub in the place of the judge: ``drive.py SEATS``."""

import os
import sys
from pathlib import Path

from harness.catalog import gpus
from harness.catalog.tree import Selection, Tree
from harness.extras.fleet import driver
from harness.judge.candidate import Settings
from harness.machine.guard import guarded
from harness.runs.run import Plan

STUB = Path(__file__).with_name("stub.py")


def main() -> object:
    tree, gpu = Tree.here(), gpus.find("cpu")
    iterations, _ = tree.scan(gpu.key, Selection())
    plan = Plan(tree, gpu, None, tuple(iterations), Settings.of(gpu))
    words = ("bench", "--gpu", "cpu")
    fleet = driver.Fleet(plan, words, os.environ.get("RAY_ADDRESS"), int(sys.argv[1]), program=(str(STUB),))
    done = driver.run(fleet)
    print(len(done.results.records), done.results.reused)
    return done.results.exit_code


if __name__ == "__main__":
    sys.exit(int(guarded(main)))
