"""Plain English in docstrings and comments: sentences of at most 25 words, and no word for a person where code is."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
WORDS_MAX: Final = 25
PERSON: Final = re.compile(r"\b(who|whom|whose|nobody|somebody)\b", re.IGNORECASE)
# A sentence ends at a stop, at an empty line, and before an entry of a list or table, in which two spaces part columns.
END: Final = re.compile(r"(?<=[.:;!?])\s+|\n\s*\n|\n(?=[^\n]*\S {2,}\S)")
MODULES: Final = sorted(path for room in ("harness", "kernels", "baselines") for path in (ROOT / room).rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_prose_is_plain(path: Path) -> None:
    source = path.read_text()
    for text in (*_docstrings(source), *_comments(source)):
        assert PERSON.search(text) is None, text
        for sentence in END.split(text):
            assert len(sentence.split()) <= WORDS_MAX, sentence


def test_a_comment_is_read_whole() -> None:
    """A sentence goes on in the next line, and a comment behind code stands for itself."""
    source = "x = 1  # behind\n# It goes on\n# here.\n\n# It is another.\ny = '# no comment'\n"
    assert list(_comments(source)) == ["behind", "It goes on\nhere.", "It is another."]


def _docstrings(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield ast.get_docstring(node) or ""


def _comments(source: str) -> Iterator[str]:
    """The comments of a source, lines that follow one another as one text."""
    lines: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        behind = bool(token.line[: token.start[1]].strip())
        if lines and (behind or token.start[0] != last + 1):
            yield "\n".join(lines)
            lines = []
        lines.append(token.string.lstrip("#:").strip())
        last = 0 if behind else token.start[0]
    if lines:
        yield "\n".join(lines)
