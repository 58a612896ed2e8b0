"""A profile in words, for a terminal."""

from typing import Final

from harness.records.profiles import Outcome, ProfileRecord

_INDENT: Final = " " * 12


def line(record: ProfileRecord, *, reused: bool = False) -> str:
    """One profile's outcome, in one line."""
    name = f"{record.shape_key} {record.model} {record.iteration}"
    tail = "  (recorded before)" if reused else ""
    if record.outcome in (Outcome.REFUSED, Outcome.FAILED):
        return f"{record.outcome:<9} {name}: {record.reason}{tail}"
    kernels = " + ".join(f"{kernel.name} {kernel.duration_us:.4g} µs" for kernel in record.kernels)
    return f"{record.outcome:<9} {name}: {_bound(record)}, {kernels}{tail}"


def verdict(record: ProfileRecord) -> str:
    """What bounds an iteration, why, and what to try, each idea under the number that ``new --idea`` takes."""
    lines = [line(record)]
    for title, texts in (("evidence", record.evidence), ("to try", [idea.sentence for idea in record.ideas])):
        for number, text in enumerate(texts, start=1):
            head = title if number == 1 else ""
            count = f"{number}. " if title == "to try" else ""
            lines.append(f"  {head:<10}{count}{text}")
    if record.ideas:
        lines.append(
            f"{_INDENT}next: tilebench new --gpu {record.gpu} --shape {record.shape_key} --model {record.model} "
            f"--from iter{record.number:03d} --idea 1"
        )
    return "\n".join(lines)


def _bound(record: ProfileRecord) -> str:
    if record.outcome is Outcome.TIMED:
        return "no counters"
    if record.bound is None:
        return "bound unknown"
    limiter = f" by {record.limiter}" if record.limiter else ""
    return (
        f"{record.bound}-bound{limiter} ({record.confidence} confidence)"
        if record.bound != "mixed"
        else (f"mixed, most{limiter} ({record.confidence} confidence)")
    )
