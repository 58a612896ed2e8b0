"""Plain English in docstrings, comments and messages: at most 25 words a sentence, and no person where code is."""

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
ROOMS: Final = ("harness", "kernels", "baselines", "docs", "deploy", "tests")
SAMPLES: Final = ROOT / "tests" / "samples"  # iterations as their authors write them
MODULES: Final = sorted(
    path for room in ROOMS for path in (ROOT / room).rglob("*.py") if not path.is_relative_to(SAMPLES)
)


@pytest.mark.parametrize("folder", sorted({str(path.parent.relative_to(ROOT)) for path in MODULES}))
def test_prose_is_plain(folder: str) -> None:
    for path in (each for each in MODULES if each.parent == ROOT / folder):
        source = path.read_text()
        nodes = list(ast.walk(ast.parse(source)))
        messages = () if path.is_relative_to(ROOT / "tests") else _messages(nodes)
        for text in (*_docstrings(nodes), *_comments(source), *messages):
            assert PERSON.search(text) is None, (path, text)
            for sentence in END.split(text):
                assert len(sentence.split()) <= WORDS_MAX, (path, sentence)


def test_a_comment_is_read_whole() -> None:
    """A sentence goes on in the next line, and a comment behind code stands for itself."""
    source = "x = 1  # behind\n# It goes on\n# here.\n\n# It is another.\ny = '# no comment'\n"
    assert list(_comments(source)) == ["behind", "It goes on\nhere.", "It is another."]


def test_a_message_is_read_whole() -> None:
    """Its values count as a word each; what holds no words, or several lines, is no message."""
    source = """x = f"{path}: no file" " here"\ny = "2 * K"\nz = "import this\\n"\n"""
    assert list(_messages(list(ast.walk(ast.parse(source))))) == ["…: no file here"]


def _messages(nodes: list[ast.AST]) -> Iterator[str]:
    """The texts of one line that a person may read, formatted or not."""
    formatted = [node.values for node in nodes if isinstance(node, ast.JoinedStr)]
    inside = {id(each) for parts in formatted for each in parts}
    alone: list[list[ast.expr]] = [
        [node] for node in nodes if isinstance(node, ast.Constant) and id(node) not in inside
    ]
    for parts in (*formatted, *alone):
        text = "".join(str(each.value) if isinstance(each, ast.Constant) else "…" for each in parts)
        if "\n" not in text and len(re.findall(r"[a-z]{2,}", text)) > 1:
            yield text


def _docstrings(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
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
