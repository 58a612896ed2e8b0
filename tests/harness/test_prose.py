"""Plain English in docstrings: sentences of at most 25 words, and no word for a person where code is meant."""

import ast
import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
WORDS_MAX: Final = 25
PERSON: Final = re.compile(r"\b(who|whom|whose|nobody|somebody)\b", re.IGNORECASE)
# A sentence ends at a stop, at an empty line, and before an entry of a list (a name, two spaces, a description).
END: Final = re.compile(r"(?<=[.:;!?])\s+|\n\s*\n|\n(?=\w+ {2,})")
MODULES: Final = sorted((ROOT / "harness").rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_docstrings_are_plain(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            continue
        text = ast.get_docstring(node) or ""
        assert PERSON.search(text) is None, text
        for sentence in END.split(text):
            assert len(sentence.split()) <= WORDS_MAX, sentence
