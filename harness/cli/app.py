"""The command line itself, and the one place that turns errors into exit codes."""

import os
import select
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import cyclopts
import msgspec
from cyclopts import App

from harness import __version__
from harness.errors import ExitCode, TilebenchError, encodable, explained, printable
from harness.machine import interruption
from harness.machine.progress import console

app = App(
    name="tilebench",
    version=__version__,
    help="Judge hand-tuned TileLang kernels: right or wrong, how fast against the library, and which one leads.",
    help_on_error=False,
    suppress_keyboard_interrupt=False,
)


STOPPED = "stopped; what was measured is recorded, and the same command continues"


def main() -> NoReturn:
    """Entry point of ``tilebench`` and of ``python -m harness``."""
    sys.exit(int(guarded(lambda: app(exit_on_error=False, print_error=False, result_action="return_value"))))


def guarded(command: Callable[[], object]) -> ExitCode:
    """Run a command; every error that a person can cause or cure becomes one line on stderr and an exit code."""
    interruption.listen()
    try:
        code = command()
    except cyclopts.CycloptsError as error:
        return _complain(" ".join(str(error).split()), ExitCode.USAGE)
    except TilebenchError as error:
        return _complain(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _complain(STOPPED, ExitCode.INFRASTRUCTURE)
    except OSError as error:
        if _reader_left():
            return ExitCode.INFRASTRUCTURE
        where = f"{error.filename}: " if error.filename else ""
        return _complain(f"{where}{explained(error)}", ExitCode.INFRASTRUCTURE)
    return code if isinstance(code, ExitCode) else ExitCode.PASSED


def emit(document: object) -> None:
    """Write one JSON document on stdout."""
    plain = _encodable(msgspec.to_builtins(document, enc_hook=str, str_keys=True))
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(plain), indent=2) + b"\n")
    sys.stdout.buffer.flush()


def _encodable(value: Any) -> Any:
    """The same without surrogates in any text."""
    if isinstance(value, dict):
        return {_encodable(name): _encodable(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(each) for each in value]
    return encodable(value) if isinstance(value, str) else value


def _reader_left() -> bool:
    """Whether stdout is a pipe that nobody reads any more, as in ``| head``: there is nobody to tell, either."""
    try:
        descriptor = sys.stdout.fileno()
    except OSError:  # it is no file
        return False
    poll = select.poll()
    poll.register(descriptor, 0)
    left = any(event & select.POLLERR for _, event in poll.poll(0))
    if left:
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)  # Python flushes once more when it ends
    return left


def _complain(text: str, code: ExitCode) -> ExitCode:
    console.print(f"tilebench: {printable(text)}", markup=False)
    return code
