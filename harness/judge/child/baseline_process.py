"""The baseline process: it runs the library's call under the same orders as the contestant.

The referee does not run the baseline itself: each side's block then follows the same message and the same switch
between processes. Run by the referee, the baseline was 0.5 to 1.5% slower than itself in blocks of a CUDA graph.
"""

from multiprocessing.connection import Connection

from harness.errors import described
from harness.judge.child.body import child_body
from harness.judge.child.brief import Brief
from harness.judge.child.kernel import Kernel
from harness.judge.child.serve import serve
from harness.judge.child.setup import set_up_side
from harness.judge.messages import Trouble


def baseline(brief: Brief, parent: Connection, referee: Connection) -> None:
    """Body of the process: it serves one problem until the referee hangs up."""
    with child_body(brief, parent, lambda error: Trouble(described(error)), set_up_side):
        import baselines

        library = baselines.library(brief.problem)
        serve(brief, Kernel(library.alone, None, None, library.writing, prepare=library.prepare), referee)
