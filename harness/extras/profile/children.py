"""Programs that a profile starts: each in a group of its own, with a deadline, and none that outlives the run."""

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
from typing import Final

import psutil

POLL_S: Final = 0.05


class Stopped(Exception):
    """The run was stopped while a program ran."""


@dataclass(frozen=True, slots=True)
class Done:
    """How a program ended; ``code`` is negative where a signal ended it."""

    code: int
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool = False


@dataclass(slots=True)
class Children:
    """The programs of one run; ``stop`` ends those at work, from another thread."""

    _stopped: threading.Event = field(default_factory=threading.Event)

    def run(self, command: Sequence[str], environment: dict[str, str], folder: Path, deadline_s: float) -> Done:
        """Run one program in ``folder`` to its end, or to its deadline; raises Stopped."""
        started = time.monotonic()
        # To files: a pipe would stay open for as long as a grandchild that it leaves behind.
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
                while process.poll() is None and time.monotonic() - started < deadline_s:
                    if self._stopped.wait(POLL_S):
                        raise Stopped
                timed_out = process.returncode is None
            finally:
                _end(process)
            texts = []
            for file in (stdout, stderr):
                file.seek(0)
                texts.append(file.read().decode(errors="replace"))
        return Done(process.returncode, texts[0], texts[1], time.monotonic() - started, timed_out)

    def stop(self) -> None:
        self._stopped.set()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the program, its group and its descendants: ncu's own end would leave the program that it profiles."""
    with contextlib.suppress(psutil.Error):
        for each in psutil.Process(process.pid).children(recursive=True) if process.returncode is None else []:
            with contextlib.suppress(psutil.Error):
                each.kill()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
