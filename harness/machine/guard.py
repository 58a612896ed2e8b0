"""The one place that turns errors into exit codes."""

import os
import select
import sys
from collections.abc import Callable
from contextlib import suppress

from harness.errors import CONTINUES, ExitCode, TilebenchError, explained, printable
from harness.machine import interruption
from harness.machine.progress import console


def guarded(
    command: Callable[[], object], tell: Callable[[str, ExitCode], object] = lambda reason, code: None
) -> ExitCode:
    """Run a command. Every error that a person can cause or cure becomes one line on stderr and an exit code.

    ``tell`` gets the same line and code, unless the reader of stdout has left, as in ``| head``.
    """
    interruption.listen()
    try:
        code = command()
        return code if isinstance(code, ExitCode) else ExitCode.PASSED
    except TilebenchError as error:
        reason, code = str(error), error.exit_code
    except KeyboardInterrupt:
        reason, code = f"stopped; {CONTINUES}", ExitCode.INFRASTRUCTURE
    except OSError as error:
        if isinstance(error, BrokenPipeError) and reader_left():
            return ExitCode.PASSED
        reason = f"{error.filename}: {explained(error)}" if error.filename else explained(error)
        code = ExitCode.INFRASTRUCTURE
    console.print(f"tilebench: {printable(reason)}", markup=False)
    with suppress(OSError):  # the line on stderr has said it
        if not reader_left():
            tell(printable(reason), code)
    return code


def reader_left() -> bool:
    """Whether stdout is a pipe without a reader."""
    try:
        descriptor = sys.stdout.fileno()
    except OSError:  # a test's capture is no file
        return False
    poll = select.poll()
    poll.register(descriptor, 0)
    left = any(event & select.POLLERR for _, event in poll.poll(0))
    if left:
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)  # Python flushes stdout once more when it ends
    return left
