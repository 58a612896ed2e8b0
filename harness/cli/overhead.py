"""The verb overhead: host time per call of each way to write and to run a kernel."""

from typing import Annotated

from cyclopts import Parameter

from harness import gpus
from harness.cli.app import app, emit
from harness.errors import ExitCode
from harness.overhead.measure import measure, table
from harness.overhead.ways import ways
from harness.progress import reporting
from harness.tables import check_format
from harness.tree import Tree


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
