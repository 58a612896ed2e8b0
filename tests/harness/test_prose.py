"""Plain English in docstrings, comments and pages: sentences of at most 25 words, and no word for a person for code."""

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
WORDS_MAX: Final = 25
PERSON: Final = re.compile(r"\b(who|whom|whose|nobody|somebody)\b", re.IGNORECASE)
# A sentence ends at a stop, at an empty line, and before an entry of a list or table, in which two spaces part columns.
END: Final = re.compile(r"(?<=[.:;!?])\**\s+|\n\s*\n|\n(?=[^\n]*\S {2,}\S)")
# Pages that a generator writes whole: their texts are docstrings, and records.
WRITTEN: Final = {"json.md", "api.md", "commands.md", "records.md"}
PAGES: Final = [
    *(ROOT / f"{name}.md" for name in ("README", "AGENTS", "CONTRIBUTING", "CHANGELOG")),
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if path.name not in WRITTEN),
]
# Of a page: parts that are generated, code, markup, and where a link leads.
NO_PROSE: Final = re.compile(
    r"<!-- generated.*?<!-- end -->|^ *```.*?^ *```|<[^>]*>|(?<=\])\([^)]*\)", re.DOTALL | re.MULTILINE
)
CELL: Final = re.compile(r"\||^ *(?:[-*]|\d+\.|#+) |^ {4}.*$", re.MULTILINE)  # begins a text of its own
MODULES: Final = sorted(path for room in ("harness", "kernels", "baselines") for path in (ROOT / room).rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_prose_is_plain(path: Path) -> None:
    source = path.read_text()
    _require_plain((*_docstrings(source), *_comments(source)))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_are_plain(path: Path) -> None:
    _require_plain(CELL.split(NO_PROSE.sub("\n\n", path.read_text())))


def test_a_comment_is_read_whole() -> None:
    """A sentence goes on in the next line, and a comment behind code stands for itself."""
    source = "x = 1  # behind\n# It goes on\n# here.\n\n# It is another.\ny = '# no comment'\n"
    assert list(_comments(source)) == ["behind", "It goes on\nhere.", "It is another."]


def _require_plain(texts: Iterable[str]) -> None:
    for text in texts:
        assert PERSON.search(text) is None, text
        for sentence in END.split(text):
            assert len(sentence.split()) <= WORDS_MAX, sentence


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
