"""The opponent: the process that runs the baseline, under the same orders as the contestant.

The baseline is not the referee's own: a block then follows the same message and the same switch between processes on
either side. Run by the referee, it was 0.5 to 1.5% slower than itself in blocks of a CUDA graph.
"""

import os
from multiprocessing.connection import Connection
from typing import NoReturn

from harness.judge.child.entry import Brief
from harness.judge.child.kernel import Kernel
from harness.judge.child.serve import serve
from harness.judge.child.setup import settle_confined


def opponent(brief: Brief, parent: Connection, referee: Connection) -> NoReturn:
    """Body of the process: one problem's baseline, until the referee hangs up. ``parent`` only keeps it alive."""
    try:
        settle_confined(brief)
        import baselines

        serve(brief, Kernel(baselines.library(brief.problem).alone, None, None), referee)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    finally:
        parent.close()
        os._exit(0)
