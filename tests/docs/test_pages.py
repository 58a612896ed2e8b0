"""Pages: links lead somewhere, files that are named exist, the index is complete, sentences are short."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from docs.generator.pages import pages

ROOT = Path(__file__).resolve().parents[2]
INDEX = ROOT / "docs" / "README.md"
WORDS = 25
PERSON = re.compile(r"\b(who|whom|whose|nobody|somebody)\b", re.IGNORECASE)
LINK = re.compile(r"\[[^\]]*\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)|(?:src|srcset)=\"([^\"]+)\"")
FILE = re.compile(r"`((?:[\w.-]+/)*[\w.-]+\.(?:py|toml|sh|yaml|sbatch|html))`")
GENERATED = re.compile(r"<!-- generated: .*?<!-- end -->", re.DOTALL)
CODE = re.compile(r"^```.*?^```$|^(?:    [^\n]*\n)+", re.DOTALL | re.MULTILINE)
# What a reader of the documentation makes, or what lies elsewhere.
ELSEWHERE = {
    *("script.py", "problems.toml", "tuning/h200/report.html", "baselines/torch_rownorm.py"),
    *("operators/rmsnorm.py", "operators/rownorm.py", "operators/matmul.py", "baselines/torch_rmsnorm.py"),
}


@pytest.mark.parametrize("page", pages(), ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    for link, anchor, picture in LINK.findall((ROOT / page).read_text()):
        target = (ROOT / page).parent / (link or picture) if link or picture else ROOT / page
        assert target.exists(), f"{page} links to {link or picture}"
        if anchor:
            assert anchor in anchors(target), f"{page} links to {link}#{anchor}"


@pytest.mark.parametrize("page", pages(), ids=str)
def test_files_that_a_page_names_exist(page: Path) -> None:
    for name in FILE.findall((ROOT / page).read_text()):
        assert name in ELSEWHERE or (ROOT / name).exists() or ("/" not in name and name in files()), f"{page}: {name}"


def test_the_index_has_every_page() -> None:
    linked = {(INDEX.parent / link).resolve() for link, _, _ in LINK.findall(INDEX.read_text()) if link}
    missing = {path for path in (ROOT / "docs").rglob("*.md") if path != INDEX} - linked
    assert missing == set()


@pytest.mark.parametrize("page", pages(), ids=str)
def test_sentences_are_short(page: Path) -> None:
    found = list(sentences((ROOT / page).read_text()))
    assert [sentence for sentence in found if len(words(sentence)) > WORDS] == []
    assert [sentence for sentence in found if PERSON.search(sentence)] == [], "no code is a person"


def sentences(text: str) -> Iterator[str]:
    """Each sentence that someone wrote, in tables too: no code, nothing that is generated."""
    text = CODE.sub("\n\n", GENERATED.sub("\n\n", text))
    text = re.sub(r"<[^>]*>", "", text)
    text = re.sub(r"^ *#.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^ *\|.*$", lambda row: re.sub(r"\||; ", "\n\n", row[0]), text, flags=re.MULTILINE)  # cells
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text):
        yield from re.split(r"(?<=[.!?:;])\s+(?=[A-Z0-9`*\[(])", " ".join(paragraph.split()))


def words(sentence: str) -> list[str]:
    """The words; code and a link's address count as one."""
    plain = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "code", sentence))
    return [word for word in plain.split() if re.search(r"\w", word)]


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)


@cache
def files() -> frozenset[str]:
    """The names of all files in the checkout that a page may speak of."""
    folders = ("harness", "kernels", "baselines", "tests", "deploy", "docs", ".ci")
    inside = {path.name for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()}
    return frozenset(inside | {path.name for path in ROOT.iterdir()})
