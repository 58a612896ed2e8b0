"""Where each child process begins. The parent imports this module, and never imports torch."""

from multiprocessing.connection import Connection

from harness.judge.child.brief import Brief


def run_contestant(brief: Brief, referee: Connection, parent: Connection) -> None:
    from harness.judge.child.contestant import contestant

    contestant(brief, parent, referee)


def run_baseline(brief: Brief, referee: Connection, parent: Connection) -> None:
    from harness.judge.child.baseline_process import baseline

    baseline(brief, parent, referee)


def run_referee(brief: Brief, parent: Connection) -> None:
    from harness.judge.child.referee import referee

    referee(brief, parent)
