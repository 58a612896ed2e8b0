"""JSON Lines files of records: appended whole, read strictly, never changed."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from harness.errors import InfrastructureError, explained, printable
from harness.records.base import SCHEMA

R = TypeVar("R", bound=msgspec.Struct)


class _Schema(msgspec.Struct):
    schema: int


def append(path: Path, record: R) -> None:
    """Append one whole line, on the disk when this returns. Raises InfrastructureError."""
    append_made(path, lambda: record)


def append_made(path: Path, make: Callable[[], R]) -> R:
    """Append what ``make`` returns, such as a record with the file's next number, under the file's lock."""
    with appending(path) as write:
        record = make()
        write(msgspec.json.encode(record) + b"\n")
    return record


@contextmanager
def appending(path: Path) -> Iterator[Callable[[bytes], None]]:
    """Hold the file's lock; gives what appends whole lines. Raises InfrastructureError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "ab+", buffering=0, opener=_no_link) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield partial(_write_whole, file.fileno())
    except OSError as error:
        raise InfrastructureError(f"{path}: the record cannot be written: {explained(error)}") from error


def _no_link(path: str, flags: int) -> int:
    """A notebook of others may hold a link to any file."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def _write_whole(descriptor: int, lines: bytes) -> None:
    """Put whole lines on the disk, or none of them where there is no room."""
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        lines = b"\n" + lines  # a torn last line stays torn, and stays alone
    try:
        while lines:
            lines = lines[os.write(descriptor, lines) :]
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def read(path: Path, kind: type[R]) -> tuple[list[R], list[str]]:
    """All records of a file, and a complaint with its number for each line that is not a record."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return [], []
    except OSError as error:
        raise InfrastructureError(f"{path}: the records cannot be read: {explained(error)}") from error
    return decode(content, kind, str(path))


def decode(content: bytes, kind: type[R], name: str) -> tuple[list[R], list[str]]:
    """``read``, of a file's content; ``name`` stands in the complaints."""
    records, problems = _decoded(content, kind, name)
    return list(records), list(problems)


@lru_cache(maxsize=4)  # a run asks for a ladder's file once for each of its iterations
def _decoded(content: bytes, kind: Any, name: str) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    lines = content.split(b"\n")
    decoder = msgspec.json.Decoder(kind)
    records = []
    problems = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            records.append(decoder.decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            fault = "torn last line" if number == len(lines) else _fault(line)
            problems.append(printable(f"{name}:{number}: {fault}, ignored ({error})"))
    return tuple(records), tuple(problems)


def _fault(line: bytes) -> str:
    """Why a whole line is not a record of this version."""
    try:
        schema = msgspec.json.decode(line, type=_Schema).schema
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return "not a record"
    if schema == SCHEMA:
        return f"not a record, though of schema {SCHEMA}"
    return f"made by a tilebench of schema {schema}, and this one reads schema {SCHEMA}"
