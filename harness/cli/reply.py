"""What a verb answers, and the one JSON envelope around every answer."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar

import msgspec

from harness import __version__
from harness.errors import ExitCode, encodable
from harness.machine.progress import console

SCHEMA: Final = 1
Data = TypeVar("Data", covariant=True)


class Envelope(msgspec.Struct, Generic[Data], frozen=True, forbid_unknown_fields=True):
    """What ``--json`` prints on stdout, the same for every verb.

    ``tilebench`` is the version of the program. ``exit_code`` is that of the process: 0 passed, 1 rejected, 2 usage,
    3 infrastructure. ``data`` is the verb's answer, and null where the verb failed before it had one. ``problems``
    holds the lines on stderr that say what is wrong; after a failure the last of them is the error.
    """

    tilebench: str
    schema: Literal[1]
    verb: str
    exit_code: int
    data: Data | None
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reply(Generic[Data]):
    """The answer of a verb: ``data`` for machines, ``text`` for people, and what is wrong."""

    data: Data
    text: Callable[[], str]
    exit_code: ExitCode = ExitCode.PASSED
    problems: tuple[str, ...] = ()


def reported(problems: Iterable[str]) -> tuple[str, ...]:
    """The problems of a reply, after each is a line on stderr."""
    lines = tuple(problems)
    for line in lines:
        console.print(line, markup=False)
    return lines


def emit(verb: str, exit_code: ExitCode, data: object, problems: Iterable[str]) -> None:
    document = Envelope[object](__version__, SCHEMA, verb, int(exit_code), data, tuple(problems))
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
