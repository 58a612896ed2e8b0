"""The verb overhead: host time per call, for each way to write and to run a kernel."""

from harness.boards.tables import check_format
from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.cli.app import app
from harness.cli.options import GpuKey, Json, TableFormat
from harness.cli.reply import Reply
from harness.errors import ExitCode
from harness.extras.overhead.measure import HostTime, measure, table
from harness.extras.overhead.ways import ways
from harness.machine.progress import reporting


@app.command
def overhead(*, gpu: GpuKey = gpus.AUTO, json: Json = False, format: TableFormat = "simple") -> Reply[list[HostTime]]:
    """Time what one call costs the host: lazy, eager and compiled kernels, every execution backend, and torch."""
    check_format(format)
    found, device = gpus.resolve(gpu)
    with reporting(len(ways())) as reporter:
        figures = measure(Tree.here(), found, device, reporter)
    code = ExitCode.PASSED if any(figure.us is not None for figure in figures) else ExitCode.REJECTED
    return Reply(figures, lambda: table(figures, format), code)
