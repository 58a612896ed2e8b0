"""A fleet of simulated GPUs on a notebook, with the stub in the place of the judge: ``drive.py SEATS``.

With ``ERRANDS`` it stands in the place of a verb that judges no iterations.
"""

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
    words = ("bench", "--gpu", "cpu", "--shape", driver.SHAPE)
    errands = tuple(dict.fromkeys(each.problem for each in iterations)) if "ERRANDS" in os.environ else None
    address, most = os.environ.get("RAY_ADDRESS"), int(sys.argv[1])
    done = driver.run(
        driver.Fleet(plan, words, address, most, image=os.environ.get("IMAGE"), program=(str(STUB),), errands=errands)
    )
    print(len(done.results.records), done.results.reused)
    return max(done.results.exit_code, done.exit_code)


if __name__ == "__main__":
    sys.exit(int(guarded(main)))
