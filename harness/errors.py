"""The errors that a person sees, each with the exit code it ends the command with."""

from enum import IntEnum


class ExitCode(IntEnum):
    PASSED = 0
    REJECTED = 1
    USAGE = 2
    INFRASTRUCTURE = 3


class TilebenchError(Exception):
    """One line: what is wrong, where, and what to do next."""

    exit_code = ExitCode.INFRASTRUCTURE


class UsageError(TilebenchError):
    """The caller asked for something that does not exist or does not parse."""

    exit_code = ExitCode.USAGE


class InfrastructureError(TilebenchError):
    """The machine or the harness, not the iteration, is in the way."""

    exit_code = ExitCode.INFRASTRUCTURE
