"""The errors that a person sees, each with its exit code."""

import errno
import re
import traceback
from collections.abc import Iterable
from difflib import get_close_matches
from enum import IntEnum
from pathlib import Path
from typing import Final


class ExitCode(IntEnum):
    PASSED = 0
    REJECTED = 1
    USAGE = 2
    INFRASTRUCTURE = 3


CONTINUES: Final = "what is recorded stays, and the same command continues"
_REMEDIES: Final = {
    errno.ENOSPC: f"free some space; {CONTINUES}",
    errno.EDQUOT: f"the quota is used up; free some space; {CONTINUES}",
    errno.EROFS: "mount it writable, or work on a copy",
    errno.EACCES: "give yourself the right to it, or work on a copy",
    errno.EPERM: "give yourself the right to it, or work on a copy",
    errno.EMFILE: "raise the limit of open files: ulimit -n",
    errno.EIO: "the disk fails: see dmesg",
}


def explained(error: OSError) -> str:
    remedy = _REMEDIES.get(error.errno or 0)
    return f"{error.strerror or error}{f'; {remedy}' if remedy else ''}"


def meant(word: str | None, known: Iterable[str]) -> str:
    """``; did you mean X?`` for the known word that is nearest to an unknown one, or nothing."""
    words = list(known)
    near = get_close_matches(word, words, n=1) if word and word not in words else []
    return f"; did you mean {near[0]}?" if near else ""


def printable(text: str, most: int = 1000) -> str:
    """Untrusted text as one line for a terminal: no control characters, and only both ends of a long text."""
    if len(text) > most:
        text = f"{text[: most // 2]} … {text[-most // 2 :]}"
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def printable_lines(text: str, most: int = 6000, longest: int = 300) -> str:
    """Untrusted lines, each as ``printable`` makes it, and only both ends of many."""
    shown = "\n".join(printable(line, longest) for line in text[: 1 << 20].splitlines())
    return shown if len(shown) <= most else f"{shown[: most // 2]}\n…\n{shown[-most // 2 :]}"


def described(error: BaseException, most: int = 400) -> str:
    """An exception in one line: its type and what it says."""
    return printable(f"{type(error).__name__}: {error}", most)


def located(path: Path, error: Exception, line: int = 0) -> str:
    """A file with its last line on the way to an error; ``line`` where the way does not lead through it."""
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == str(path)]
    if isinstance(error, SyntaxError) and error.filename == str(path):
        lines.append(error.lineno or 1)
    last = lines[-1] if lines else line
    return f"{path}{f':{last}' if last else ''}"


def unreadable(path: Path, error: Exception) -> str:
    """Why a person's module cannot be run; one line."""
    return f"{located(path, error)}: cannot be read: {described(error)}"


def encodable(text: str) -> str:
    """Text without surrogates, which JSON cannot hold: a byte that is not UTF-8 becomes ``\\xff``."""
    try:
        return text.encode(errors="surrogateescape").decode(errors="backslashreplace")
    except UnicodeEncodeError:  # a surrogate that stands for no byte
        return text.encode(errors="backslashreplace").decode()


def last_line(output: str | bytes, otherwise: str = "no message") -> str:
    """What a program said last, or else another text."""
    said = output.decode(errors="replace") if isinstance(output, bytes) else output
    return (said.strip().splitlines() or [otherwise])[-1]


def compiler_complaint(output: str) -> str | None:
    """The first error in a compiler's output, as one line, because the exception does not hold it."""
    lines = map(str.strip, output.splitlines())
    return next((line[:400] for line in lines if re.search(r"\b(error|fatal)\s*:", line)), None)


class TilebenchError(Exception):
    """One line: what is wrong, where, and what to do next."""

    exit_code = ExitCode.INFRASTRUCTURE

    def __init__(self, text: str) -> None:
        super().__init__(printable(text))


class UsageError(TilebenchError):
    """The caller named something that does not exist or does not parse."""

    exit_code = ExitCode.USAGE


class NothingToDo(TilebenchError):
    """What was asked for is done by doing nothing."""

    exit_code = ExitCode.PASSED


class InfrastructureError(TilebenchError):
    """The machine or the harness failed, not the iteration."""

    exit_code = ExitCode.INFRASTRUCTURE
