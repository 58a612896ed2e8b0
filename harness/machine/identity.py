"""Which process it is: a PID alone comes again."""

from pathlib import Path


def living(pid: int | str) -> str | None:
    """The name of a process that has not ended: its PID, and the kernel's ticks when it began."""
    try:
        state, *others = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in ("Z", "X") else f"{pid} {others[18]}"


def lives(name: str) -> bool:
    """Whether the process of a name has not ended."""
    return living(name.partition(" ")[0]) == name
