"""The turn of a run: one that began early uses no device before the run ahead of it has ended.

Imports and first builds need cores alone. So it has them behind it when its turn comes.
"""

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

from harness.errors import InfrastructureError
from harness.machine.identity import lives
from harness.machine.interruption import heed
from harness.machine.nvml import Device, compute_processes, released

AFTER: Final = "TILEBENCH_AFTER"  # environment variable: the process ahead, as ``identity.living`` names it
POLL_S: Final = 0.05
T = TypeVar("T")


def require_free(device: Device | None) -> None:
    """Raise InfrastructureError if a process uses the device."""
    if device is not None and (others := compute_processes(device)):
        pids = ", ".join(map(str, others))
        raise InfrastructureError(f"{device.name} is in use by process {pids}; wait until it ends, or end it")


@dataclass(slots=True)
class Turn:
    """``ahead`` is the process to wait for; None once the turn has come."""

    ahead: str | None = None

    def take(self, device: Device | None) -> None:
        """Wait for the turn. Raises InfrastructureError if others than the process ahead use the device."""
        if self.ahead is None:
            return
        while lives(self.ahead):
            heed()
            time.sleep(POLL_S)
        self.ahead = None
        released(device)
        require_free(device)

    def before(self, items: Iterable[T], device: Device | None) -> Iterator[T]:
        """The items, none before the turn; they are begun at once."""
        for each in items:
            self.take(device)
            yield each


own_turn: Final = Turn(os.environ.pop(AFTER, None))  # no child may take it for its own
