"""TOML that a person writes: decoded strictly, each complaint with its file and line."""

import re
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

import msgspec

from harness.errors import UsageError, explained, meant

T = TypeVar("T")
_KINDS: Final = {"str": "text", "int": "a number", "float": "a number", "bool": "true or false", "array": "a list"}


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
        raise wrong(path, line, _plainly(said.replace(found[0], "") if found else said, kind)) from None


def _plainly(said: str, kind: Any) -> str:
    """What msgspec says of a field, in words of the file."""
    if unknown := re.search(r"unknown field `([^`]+)`", said):
        known = getattr((get_args(kind) or (kind,))[-1], "__struct_fields__", ())
        return f"unknown field '{unknown[1]}'; known: {', '.join(known)}{meant(unknown[1], known)}"
    if other := re.fullmatch(r"Expected `([^`]+)`, got `([^`]+)` - at `\$\.?(.*)`", said):
        wanted, got = (_KINDS.get(each, each) for each in other.groups()[:2])
        return f"{other[3] or 'it'} must be {wanted}, and is {got}"
    return said


def line_of(path: Path, key: str, after: int = 0) -> int:
    """The first line, after one, that sets a key or begins its table; 0 where none does."""
    form = re.compile(rf"""\s*\[*\s*["']?{re.escape(key)}["']?\s*[=\].]""")
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((number for number, line in enumerate(lines, start=1) if number > after and form.match(line)), 0)


def wrong(path: Path, line: int, what: str) -> UsageError:
    return UsageError(f"{path}{f':{line}' if line else ''}: {what}")
