"""TOML that a person writes: decoded strictly, each complaint with its file and line."""

import re
from pathlib import Path
from typing import TypeVar

import msgspec

from harness.errors import UsageError, explained

T = TypeVar("T")


def decode(path: Path, kind: type[T]) -> T:
    """What a file holds. Raises UsageError where it does not parse, or says what ``kind`` does not know."""
    try:
        return msgspec.toml.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {explained(error)}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        found = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)", said := str(error))
        field = re.search(r"unknown field `([^`]+)`", said) or re.search(r"`\$\.(\w+)", said)
        last = len(path.read_bytes().splitlines())
        line = int(found[1] or last) if found else line_of(path, field[1]) if field else 0
        raise wrong(path, line, said.replace(found[0], "") if found else said) from None


def line_of(path: Path, key: str, after: int = 0) -> int:
    """The first line, after one, that sets a key or begins its table; 0 where none does."""
    form = re.compile(rf"""\s*\[*\s*["']?{re.escape(key)}["']?\s*[=\].]""")
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((number for number, line in enumerate(lines, start=1) if number > after and form.match(line)), 0)


def wrong(path: Path, line: int, what: str) -> UsageError:
    return UsageError(f"{path}{f':{line}' if line else ''}: {what}")
