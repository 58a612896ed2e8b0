"""Stands in the place of the judge: it records each iteration of a problem that is not recorded yet, and judges none.

Its arguments are those of ``bench``. ``PACE_S`` says how long one iteration takes, ``REFUSES`` an exit code that it
ends with before the iteration ``AT``, or at once. ``MOST`` is after how many iterations its share of the time is over.
``LEDGER`` is a file that gets the id of each record that is on the disk. ``LOOSE`` is a file of one line and a half
that it writes, too.
"""

import os
import sys
import time
from pathlib import Path

from harness.catalog import gpus
from harness.catalog.tree import Selection, Tree
from harness.judge.candidate import Settings
from harness.judge.facts.hashes import families_sha256, source_sha256
from harness.records.environment import describing
from harness.records.store import append
from harness.runs.run import Plan, reusable
from harness.runs.turn import own_turn
from tests.harness.examples import record


def record_all() -> None:
    shape = sys.argv[sys.argv.index("--shape") + 1]
    tree, gpu = Tree.here(), gpus.find("cpu")
    iterations, _ = tree.scan(gpu.key, Selection(shape=shape))
    if "LOOSE" in os.environ:
        Path(os.environ["LOOSE"]).parent.mkdir(parents=True, exist_ok=True)
        Path(os.environ["LOOSE"]).write_bytes(b"no\nline")
    plan = Plan(tree, gpu, None, tuple(iterations), Settings.of(gpu))
    environment = describing(tree.root, gpu, None)
    own_turn.take(None)
    made = 0
    for each in iterations:
        if reusable(plan, each, environment):
            continue
        if any(word.startswith("--within=") for word in sys.argv) and made == int(os.environ["MOST"]):
            break
        if "REFUSES" in os.environ and os.environ.get("AT", each.name) == each.name:
            print("tilebench: the stub refuses", file=sys.stderr)
            sys.exit(int(os.environ["REFUSES"]))
        time.sleep(float(os.environ.get("PACE_S", "0")))
        outcome = record(
            shape_key=each.shape_key,
            model=each.model,
            iteration=each.name,
            number=each.number,
            recorded_at=f"{time.time_ns()}",
            source_sha256=source_sha256(each.path),
            families_sha256=families_sha256(tree.root, each.path),
            environment=environment(each.problem.operator),
        )
        append(tree.records(gpu.key, each.shape_key, each.model), outcome)
        with Path(os.environ.get("LEDGER", os.devnull)).open("a") as ledger:
            ledger.write(f"{outcome.id}\n")
        made += 1
        print(f"recorded {each}", file=sys.stderr, flush=True)
