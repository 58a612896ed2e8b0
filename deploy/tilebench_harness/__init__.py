"""tilebench where it is installed: importing this lets a process import ``harness``, ``kernels`` and ``baselines``.

These are names of a checkout. A wheel holds the three in here, where no other program's imports meet them.
"""

import os
import sys
from pathlib import Path

HOME = Path(__file__).resolve().parent
HOLDS_THEM = (HOME / "harness").is_dir()  # a checkout has them beside deploy/, and on the path already

if HOLDS_THEM and str(HOME) not in sys.path:
    sys.path.insert(0, str(HOME))


def main() -> None:
    """Entry point of ``tilebench``."""
    let_children_import()
    from harness.__main__ import main as program

    program()


def let_children_import() -> None:
    """Have the processes that this one starts find the packages too."""
    if HOLDS_THEM:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(HOME), os.environ.get("PYTHONPATH"))))
