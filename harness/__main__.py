"""``tilebench`` and ``python -m harness``: from the first moment on, a signal ends the program in one line."""

from typing import NoReturn

from harness.machine import interruption


def main() -> NoReturn:
    """Entry point of the program."""
    interruption.leave_at_once()
    from harness.cli import main as command_line  # takes most of a second

    command_line()


if __name__ == "__main__":
    main()
