"""``tilebench`` and ``python -m harness``: from the first moment on, a signal ends the program in one line.

Python's own start lies before it, so this module imports only what that has loaded.
"""

import os
import signal


def main() -> None:
    """Entry point of the program."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    from harness.cli import main as command_line  # takes most of a second

    command_line()


def _leave(number: int, frame: object) -> None:
    """End with one line until the command listens: an exception in an import would be a traceback."""
    os.write(2, b"tilebench: stopped before it began\n")
    os._exit(3)  # ExitCode.INFRASTRUCTURE, from a module that is not loaded yet


if __name__ == "__main__":
    main()
