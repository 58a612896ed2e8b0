"""Programs that a profile starts. Each has its own process group and a deadline; none outlives the run."""

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

import psutil

POLL_S: Final = 0.05


class Stopped(Exception):
    """The run was stopped while a program ran."""


@dataclass(frozen=True, slots=True)
class FinishedProgram:
    """How a program ended. ``code`` is negative if a signal ended it."""

    code: int
    stdout: str
    stderr: str
    timed_out: bool


@dataclass(slots=True)
class Children:
    """The programs of one run. Another thread may call ``stop`` to end all of them."""

    _stopped: threading.Event = field(default_factory=threading.Event)

    def run(
        self, command: Sequence[str], environment: dict[str, str], folder: Path, deadline_s: float
    ) -> FinishedProgram:
        """Run a program in ``folder`` until it ends or its deadline passes. Raises Stopped."""
        deadline = time.monotonic() + deadline_s
        # Files, not pipes: a grandchild that stays behind would keep a pipe open.
        with tempfile.TemporaryFile(dir=folder) as stdout, tempfile.TemporaryFile(dir=folder) as stderr:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
            try:
                while process.poll() is None and time.monotonic() < deadline:
                    if self._stopped.wait(POLL_S):
                        raise Stopped
                timed_out = process.returncode is None
            finally:
                _end(process)
            return FinishedProgram(process.returncode, _text(stdout), _text(stderr), timed_out)

    def stop(self) -> None:
        self._stopped.set()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the program, its group and its descendants. Killing ncu alone would leave the profiled program running."""
    with contextlib.suppress(psutil.Error):
        for each in psutil.Process(process.pid).children(recursive=True) if process.returncode is None else []:
            with contextlib.suppress(psutil.Error):
                each.kill()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
