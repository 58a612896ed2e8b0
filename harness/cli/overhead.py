"""The verb overhead: host time per call of each way to write and to run a kernel."""

from typing import Annotated

from cyclopts import Parameter

from harness.boards.tables import check_format
from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.cli.app import app, emit
from harness.errors import ExitCode
from harness.extras.overhead.measure import measure, table
from harness.extras.overhead.ways import ways
from harness.machine.progress import reporting


@app.command
def overhead(
    *,
    gpu: Annotated[str, Parameter(help="GPU key, or auto: the GPU of this machine, cpu where there is none.")] = "auto",
    json: Annotated[bool, Parameter(negative="", help="One JSON document on stdout, all else on stderr.")] = False,
    format: Annotated[str, Parameter(help="A tabulate format.")] = "simple",
) -> ExitCode:
    """Time what a call costs the host: lazy, eager and compiled kernels, every execution backend, and torch."""
    check_format(format)
    found, device = gpus.resolve(gpu)
    with reporting(len(ways())) as reporter:
        figures = measure(Tree.here(), found, device, reporter)
    if json:
        emit(figures)
    else:
        print(table(figures, format))
    return ExitCode.PASSED if any(figure.us is not None for figure in figures) else ExitCode.REJECTED
