"""ptxas's own figures, from what ``--ptxas-options=--verbose`` makes it print."""

import re
from dataclasses import dataclass, replace
from typing import Final

_ENTRY: Final = re.compile(r"Compiling entry function '([^']+)'")
_SPILLS: Final = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED: Final = re.compile(r"Used (\d+) registers")
_BARRIERS: Final = re.compile(r"used (\d+) barriers")
_SHARED: Final = re.compile(r"(\d+) bytes smem")
_REMARK: Final = re.compile(r"ptxas (?:info|warning)\s*:\s*(?:\([A-Z]\d+\)\s*)?(Potential Performance Loss:.*)")
_IN_FUNCTION: Final = re.compile(r"\s*in (?:the )?function '[^']*'")


@dataclass(frozen=True, slots=True)
class Usage:
    """What one kernel takes: registers a thread, bytes of local memory a thread, bytes of static shared memory a block.

    Spills are the bytes of all spill instructions in the code, each counted once however often it runs.
    """

    registers: int = 0
    stack_bytes: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    static_shared_bytes: int = 0
    barriers: int = 0


def usage(log: str) -> dict[str, Usage]:
    """Per kernel; functions that ptxas did not inline count towards the kernel they are compiled with."""
    found: dict[str, Usage] = {}
    name = None
    for line in log.splitlines():
        if entry := _ENTRY.search(line):
            name = entry[1]
            found[name] = Usage()
        if name is None:
            continue
        held = found[name]
        if spills := _SPILLS.search(line):
            stack, stores, loads = map(int, spills.groups())
            found[name] = replace(
                held,
                stack_bytes=held.stack_bytes + stack,
                spill_store_bytes=held.spill_store_bytes + stores,
                spill_load_bytes=held.spill_load_bytes + loads,
            )
        elif used := _USED.search(line):
            barriers, shared = _BARRIERS.search(line), _SHARED.search(line)
            found[name] = replace(
                held,
                registers=int(used[1]),
                barriers=int(barriers[1]) if barriers else 0,
                static_shared_bytes=int(shared[1]) if shared else 0,
            )
    return found


def remarks(log: str) -> tuple[str, ...]:
    """What ptxas itself says will be slow, each once."""
    said = (match[1] for match in map(_REMARK.search, log.splitlines()) if match)
    return tuple(dict.fromkeys(_IN_FUNCTION.sub("", each).strip() for each in said))
