"""A failure of the iteration's own code, told to the process that waits for it: what, where, and the traceback."""

import re
import traceback
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from harness.errors import compiler_complaint, encodable
from harness.judge.child.brief import OUTPUT_FILE, Brief
from harness.judge.child.capture import is_compiling, was_compiling
from harness.judge.messages import Broken
from harness.judge.places import Frame, UserCode, words_of
from harness.records.base import Cause

PRINTED_BYTES: Final = 2000  # of its output, at the end, where a compiler complains
MESSAGE_LINES: Final = 20
_SPAN: Final = re.compile(r"--> (.+?):(\d+):\d+")  # TileLang's pointer into the source
_OPERATION: Final = re.compile(r"tl::(\w+?)Node::")  # TileLang's lowering of T.gemm is GemmNode::Lower


def failed(error: BaseException, cause: Cause, brief: Brief, what: str = "") -> Broken:
    """The message about an exception, for which ``what`` may stand."""
    try:
        return _told(error, cause, brief, what)
    except BaseException:  # of its own class, which fails in any of these again
        return Broken(cause, f"{type(error).__name__}, which cannot be told", "")


def _told(error: BaseException, cause: Cause, brief: Brief, what: str) -> Broken:
    compiling = was_compiling(error)
    printed = _printed(brief) if compiling else ""
    what = (what or compiler_complaint(printed) or explain(error)).replace(f"{brief.scratch}/", "")
    reason = located(error, UserCode(brief.path, brief.root), what)
    told = "".join(traceback.format_tb(error.__traceback__)) + "\n".join((*_said(error), printed))
    return Broken(cause, encodable(reason), encodable(told.replace(f"{brief.root}/", "")))


def located(error: BaseException, code: UserCode, what: str = "") -> str:
    """An exception in one line, or ``what`` stands for it, and the line of the author's code that it is about."""
    what = what or explain(error)
    words = _words(error, what) if was_compiling(error) and not _traced(error) else ()
    return code.located(what, frames_of(error), words)


def explain(error: BaseException) -> str:
    """An exception in one line: its type, and its most telling line."""
    lines = [line.strip() for line in _message(error).splitlines() if line.strip()]
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} (line {error.lineno})"
    first = lines[0] if lines else _raising(error)
    telling = next((line for line in lines[:40] if "error" in line.lower()), first)
    return f"{type(error).__name__}: {telling}"[:400].removesuffix(": ")


def _message(error: BaseException) -> str:
    """What it says; an exception of the iteration's own class may fail to."""
    try:
        return str(error)
    except BaseException as failure:
        return f"its message raises {type(failure).__name__}"


def _raising(error: BaseException) -> str:
    """The source line that raised, which says more than an assertion without a message."""
    frames = traceback.extract_tb(error.__traceback__)
    return (frames[-1].line or "") if frames else ""


def frames_of(error: BaseException) -> Iterator[Frame]:
    """Where the error came from, outermost first, and where it points."""
    yield from ((frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__))
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        yield error.filename, error.lineno
    yield from ((path, int(line)) for path, line in _SPAN.findall(_message(error)))


def _traced(error: BaseException) -> bool:
    """Whether a compiler's error points into the source, or came while it ran the source to trace it."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    begun = next(number for number, frame in enumerate(frames) if is_compiling(frame))
    below = any("__tb" in frame.f_locals or "__tb" in frame.f_code.co_freevars for frame in frames[begun:])
    return below or _SPAN.search(_message(error)) is not None


def _words(error: BaseException, what: str) -> Iterator[str]:
    """What a complaint is about, most telling first: what it names, and the operation."""
    yield from words_of(what)
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        if operation := _OPERATION.search(frame.f_code.co_name):
            yield operation.group(1).lower()


def _said(error: BaseException) -> list[str]:
    """The exception itself; TileLang appends all of the generated source."""
    said = f"{type(error).__name__}: {_message(error)}".splitlines()[:MESSAGE_LINES]
    return [*said, *getattr(error, "__notes__", ())]


def _printed(brief: Brief) -> str:
    """The end of what was printed, compilers included."""
    with suppress(OSError), (brief.scratch / OUTPUT_FILE).open("rb") as output:
        output.seek(0, 2)
        output.seek(max(0, output.tell() - PRINTED_BYTES))
        return output.read().decode(errors="replace")
    return ""
