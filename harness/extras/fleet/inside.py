"""Python inside a container image, with this process's GPU, cores and tree: ``IMAGE NEEDS_GPU ARGUMENT…``.

``ARGUMENT`` are Python's, and begin with ``-m MODULE``. What it writes, and its exit code, are passed on.
"""

import sys

from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.container import engine, image, sandbox
from harness.errors import ExitCode
from harness.machine.guard import guarded


def run() -> ExitCode:
    name, needs_gpu, option, module, *words = sys.argv[1:]
    program = ("python3", option, module)
    order = sandbox.ContainerCommand(Tree.here().root, tuple(words), gpus=bool(int(needs_gpu)), program=program)
    present = gpus.usable() if order.gpus else []
    with engine.connected() as client:
        return sandbox.run(client, image.find(client, name), order, present[0] if present else None)


if __name__ == "__main__":
    sys.exit(guarded(run))
