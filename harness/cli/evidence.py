"""The verb of the build stage: compile for an architecture, and show what the compilers say of each kernel."""

from harness.cli.app import app, emit
from harness.cli.options import Building, Choice
from harness.cli.stages import carry_out
from harness.errors import ExitCode
from harness.evidence import report
from harness.records.base import Stage


@app.command
def build(choice: Choice = Choice(), building: Building = Building()) -> ExitCode:
    """Compile every iteration for its GPU's architecture, and show the evidence; needs no GPU."""
    results = carry_out(choice, Stage.BUILD, building)
    rows = [report.row(record) for record in results.records]
    if choice.json:
        emit({"records": rows, "misplaced": [each.reason for each in results.misplaced]})
    else:
        print(report.tables(rows))
        passed = sum(row.status == "passed" for row in rows)
        reused = f", {results.reused} of them recorded before" if results.reused else ""
        print(f"{passed} of {len(rows)} passed{reused}")
    return results.exit_code
