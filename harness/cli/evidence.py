"""The verb build: compile for an architecture, and show what the compilers say of each kernel."""

import msgspec

from harness.catalog import gpus
from harness.cli.app import app
from harness.cli.options import BuildOptions, GpuKey, SelectionOptions
from harness.cli.reply import Reply
from harness.cli.stages import carry_out, outcome, problems
from harness.errors import ExitCode
from harness.evidence import report, toolchain
from harness.evidence.report import BuildRow
from harness.records.base import Stage


class BuildData(msgspec.Struct, frozen=True):
    """One row per iteration; ``reused`` of them were recorded before."""

    records: tuple[BuildRow, ...]
    reused: int


@app.command
def build(chosen: SelectionOptions = SelectionOptions(), how: BuildOptions = BuildOptions()) -> Reply[BuildData]:
    """Compile iterations for the architecture of their GPU, and show the evidence; needs no GPU."""
    results = carry_out(chosen, Stage.BUILD, how)
    rows = tuple(report.row(record) for record in results.records)
    return Reply(
        BuildData(rows, results.reused),
        lambda: f"{report.tables(rows)}\n{outcome(results)}",
        results.exit_code,
        problems(results),
    )


@app.command(name="missing-extra", show=False)
def missing_extra(*, gpu: GpuKey = gpus.AUTO) -> ExitCode:
    """Print the extra of this project that a build for a GPU still needs here; for the Makefile."""
    found = gpus.find(gpus.detect() if gpu == gpus.AUTO else gpu)
    print("" if found.is_cpu else toolchain.find().missing_extra or "")
    return ExitCode.PASSED
