"""A child that carries out orders, each in a process forked for it: lines of JSON on its stdin, and on its stdout.

The child's side imports nothing that an older TileLang lacks.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from harness.errors import last_line, printable

END_S: Final = 5.0


class ForkingChild:
    """The parent's side."""

    def __init__(self, command: Sequence[str], folder: Path, variables: Mapping[str, str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=folder, env=variables
        )

    def ask(self, order: dict[str, Any]) -> dict[str, Any] | None:
        """The answer; None where the child has ended. An order has its ``deadline_s``."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError, ValueError):  # the last line of one that is killed may be half
            print(json.dumps(order), file=self._process.stdin, flush=True)
            if line := self._process.stdout.readline():
                answer: dict[str, Any] = json.loads(line)
                return answer
        return None

    def last_words(self) -> str:
        assert self._process.stderr is not None
        return printable(last_line(self._process.stderr.read(), "it ended without a word"))

    def close(self) -> None:
        with self._process:
            self._process.terminate()
            try:
                self._process.communicate(timeout=END_S)
            except (subprocess.TimeoutExpired, ValueError):
                self._process.kill()


def serve(carry_out: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """In the child: an answer for each order; the ``reason`` of how its process ended where that gave none.

    It is ``transient`` where another time the process may not end so.
    """
    answers = os.fdopen(os.dup(1), "w")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    for line in sys.stdin:
        order = json.loads(line)
        with tempfile.TemporaryFile("w+") as answer:
            child = os.fork()
            if child == 0:
                _begin(order["deadline_s"])
                json.dump(carry_out(order), answer)
                answer.flush()
                os._exit(0)
            try:
                status = os.waitpid(child, 0)[1]
            finally:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(child, signal.SIGKILL)  # its compilers too
            answer.seek(0)
            said = answer.read() or json.dumps(_ended(status, order["deadline_s"]))
            print(said, file=answers, flush=True)


def _begin(deadline_s: int) -> None:
    """One that is late ends by the alarm, without an answer."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.alarm(deadline_s)
    log = os.open(os.devnull, os.O_WRONLY)
    os.dup2(log, 1)
    os.dup2(log, 2)


def _ended(status: int, deadline_s: int) -> dict[str, object]:
    if not os.WIFSIGNALED(status):
        return {"reason": f"it ends with exit code {os.WEXITSTATUS(status)}"}
    number = signal.Signals(os.WTERMSIG(status))
    reason = f"it runs over {deadline_s} s" if number == signal.SIGALRM else f"it ends by {number.name}"
    return {"reason": reason, "transient": number in (signal.SIGALRM, signal.SIGKILL)}
