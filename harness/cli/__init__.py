"""The command line: one function per verb, one module for related verbs. To import it is to register the verbs."""

from harness.cli import (
    ceiling,
    compare,
    container,
    foreign,
    gather,
    health,
    notebook,
    profile,
    publish,
    report,
    repository,
    stages,
    tune,
    versus,
)
from harness.cli.app import main
from harness.cli.groups import arrange

arrange()
VERBS = (
    *(ceiling, compare, container, foreign, gather, health),
    *(notebook, profile, publish, report, repository, stages, tune, versus),
)
__all__ = ["VERBS", "main"]
