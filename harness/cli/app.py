"""The command line: words in, an answer on stdout, an exit code."""

import io
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, NoReturn

import cyclopts
from cyclopts import App

from harness import __version__
from harness.catalog.tree import Tree
from harness.cli.reply import Reply, emit
from harness.errors import ExitCode, UsageError
from harness.machine import hints, interruption
from harness.machine.clock_lock import restore_left
from harness.machine.guard import guarded, reader_left
from harness.machine.progress import console

app = App(
    name="tilebench",
    version=__version__,
    help="Judge hand-tuned TileLang kernels: right or wrong, how fast against the library, and which one leads.",
    help_format="plaintext",
    help_on_error=False,
    suppress_keyboard_interrupt=False,
)
HELP: Final = frozenset({"--help", "-h"})
JSON: Final = re.compile(r"--json(=(true|t|yes|y|1))?", re.IGNORECASE)  # as cyclopts reads it


def main() -> NoReturn:
    """Entry point of ``tilebench`` and of ``python -m harness``."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without UTF-8 shows ? for ±
    code = carry_out(sys.argv[1:])
    interruption.ignore()
    sys.exit(int(code))


def carry_out(words: Sequence[str]) -> ExitCode:
    """Run one command line. With ``--json`` an error is an envelope on stdout too."""
    words = [*words[1:], "--help"] if words[:1] == ["help"] else words
    verb = next((word for word in words if not word.startswith("-")), "")
    as_json = any(map(JSON.fullmatch, words))

    def command() -> object:
        for line in restore_left():
            console.print(line, markup=False)
        with suppress(UsageError):  # a verb that needs a repository says what is wrong with it
            Tree.here()  # options may name its operators
        if not verb:
            app.resolved_commands()  # the help tells what each does
        try:
            with parsing():
                answer = app(words, exit_on_error=False, print_error=False, result_action="return_value")
        except SystemExit:
            if HELP.isdisjoint(words):
                raise
            return ExitCode.PASSED  # rich ends the program where the reader of its output has left
        if not isinstance(answer, Reply):
            return answer
        try:
            if as_json:
                emit(verb, answer.exit_code, answer.data, answer.problems)
            elif text := answer.text():
                print(text, flush=True)
        except BrokenPipeError:
            if not reader_left():
                raise
        return answer.exit_code

    def tell(reason: str, code: ExitCode) -> None:
        if as_json:
            emit(verb, code, None, (reason,))

    return guarded(command, tell)


@contextmanager
def parsing() -> Iterator[None]:
    """Raises UsageError where words do not parse."""
    try:
        yield
    except cyclopts.MissingArgumentError as error:
        assert error.argument is not None
        verb, what = " ".join(error.command_chain or ()), f"{error.argument.name}: {error.argument.parameter.help}"
        raise UsageError(f"{verb} needs {'a value for ' if error.keyword else ''}{what.rstrip('.')}") from None
    except cyclopts.UnusedCliTokensError as error:
        verb, word = " ".join(error.command_chain or ()), (error.unused_tokens or [""])[0]
        raise UsageError(f"{verb} takes no '{word}'; its options begin with --, such as --gpu h200") from None
    except cyclopts.CycloptsError as error:
        told, listed, _ = " ".join(str(error).split()).partition(" Available commands:")
        raise UsageError(f"{told} `{hints.program()} --help` lists them" if listed else told) from None
