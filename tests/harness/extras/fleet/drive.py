"""A fleet of simulated GPUs on a notebook, with the stub in the place of the judge: ``drive.py SEATS``.

With ``ERRANDS`` it stands in the place of a verb that judges no iterations. ``SECONDS`` limits its time, by a clock on
which each record in the notebook takes 10 s.
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
from harness.runs.within import ENDLESS, Deadline

STUB = Path(__file__).with_name("stub.py")


def main() -> object:
    tree, gpu = Tree.here(), gpus.find("cpu")
    iterations, _ = tree.scan(gpu.key, Selection())
    deadline = (
        Deadline(float(os.environ["SECONDS"]), lambda: 10.0 * recorded(tree)) if "SECONDS" in os.environ else ENDLESS
    )
    plan = Plan(tree, gpu, None, tuple(iterations), Settings.of(gpu), deadline=deadline)
    words = ("bench", "--gpu", "cpu", "--shape", driver.SHAPE)
    errands = tuple(dict.fromkeys(each.problem for each in iterations)) if "ERRANDS" in os.environ else None
    address, most = os.environ.get("RAY_ADDRESS"), int(sys.argv[1])
    done = driver.run(
        driver.Fleet(plan, words, address, most, image=os.environ.get("IMAGE"), program=(str(STUB),), errands=errands)
    )
    print(len(done.results.records), done.results.reused, *[done.results.left] * deadline.is_set)
    return max(done.results.exit_code, done.exit_code)


def recorded(tree: Tree) -> int:
    return sum(path.read_bytes().count(b"\n") for path in tree.all_records("cpu"))


if __name__ == "__main__":
    sys.exit(int(guarded(main)))
