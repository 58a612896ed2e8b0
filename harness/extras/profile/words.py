"""A profile in words, for a terminal."""

from harness.catalog import names
from harness.machine import hints
from harness.records.profiles import ProfileOutcome, ProfileRecord


def line(record: ProfileRecord, *, reused: bool = False) -> str:
    """The outcome of one profile in one line."""
    name = f"{record.shape_key} {record.model} {record.iteration}"
    tail = "  (recorded before)" if reused else ""
    if record.outcome in (ProfileOutcome.REFUSED, ProfileOutcome.FAILED):
        return f"{record.outcome:<9} {name}: {record.reason}{tail}"
    kernels = " + ".join(f"{kernel.name} {kernel.duration_us:.4g} µs" for kernel in record.kernels)
    return f"{record.outcome:<9} {name}: {_bound(record)}, {kernels}{tail}"


def verdict(record: ProfileRecord) -> str:
    """The bottleneck, the evidence, and numbered ideas; ``tilebench new --idea`` takes these numbers."""
    lines = [line(record)]
    ideas = [f"{number}. {idea.sentence}" for number, idea in enumerate(record.ideas, start=1)]
    for title, texts in (("evidence", record.evidence), ("to try", ideas)):
        lines += [f"  {'' if position else title:<10}{text}" for position, text in enumerate(texts)]
    if ideas:
        lines.append(
            f"{'':12}next: {hints.program()} new --gpu {record.gpu} --shape {record.shape_key} --model {record.model} "
            f"--from {names.ordinal(record.number)} --idea 1"
        )
    return "\n".join(lines)


def _bound(record: ProfileRecord) -> str:
    if record.outcome is ProfileOutcome.TIMED:
        return "no counters"
    if record.bound is None:
        return "bound unknown"
    limiter = f" by {record.limiter}" if record.limiter else ""
    bound = f"mixed, most{limiter}" if record.bound == "mixed" else f"{record.bound}-bound{limiter}"
    return f"{bound} ({record.confidence} confidence)"
