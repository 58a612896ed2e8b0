"""What versus prints of measurements: a table for a terminal, or Markdown for a comment on a pull request."""

from collections import Counter
from collections.abc import Sequence

from harness.extras.versus.pairing import PairedRow
from harness.extras.versus.shift import Shift
from harness.machine.table import PLAIN, figure, footnotes, interval, table


def text(rows: Sequence[PairedRow], form: str = PLAIN) -> str:
    """All rows that have a ratio or a fault, the most changed first, and why below."""
    shown = sorted((row for row in rows if not row.identical), key=lambda row: (row.ratio is not None, row.ratio or 0))
    made = table(
        shown,
        {
            "problem": lambda row: row.problem,
            "iteration": lambda row: row.iteration,
            "verdict": lambda row: row.verdict.value,
            "old/new": lambda row: figure(row.ratio, ".4f"),
            "interval": lambda row: interval(row.ratio_low, row.ratio_high),
            "to library": lambda row: figure(row.to_library, ".4f"),
        },
        form,
        right=("old/new", "to library"),
    )
    notes = footnotes((row.iteration, _why(row)) for row in shown)
    return "\n\n".join(filter(None, (counts(rows), made if shown else "", notes)))


def counts(rows: Sequence[PairedRow]) -> str:
    """How many rows have which verdict, and how many have the same code in both."""
    found = Counter(row.verdict for row in rows)
    told = ", ".join(f"{found[verdict]} {verdict}" for verdict in Shift if found[verdict])
    same = sum(row.identical for row in rows)
    return f"{told or 'no rows'}{f' ({same} with the same code)' if same else ''}"


def _why(row: PairedRow) -> tuple[str, ...]:
    return (row.reason,) if row.reason else ()
