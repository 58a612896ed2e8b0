"""A table is as wide as the terminal: columns go, words are shortened, and text is wrapped, in this order."""

from collections.abc import Callable
from operator import itemgetter

import pytest

from harness.errors import UsageError
from harness.machine.table import footnotes, paragraph, table

COLUMNS = {name: itemgetter(name) for name in ("name", "rate", "spare", "text")}
ROWS = [
    {"name": "iter001_a_name_of_many_words", "rate": "1.5", "spare": "s" * 20, "text": "some words " * 3},
    {"name": "iter002", "rate": "10.25", "spare": "", "text": ""},
]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], str]:
    def at(columns: int) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        return table(ROWS, COLUMNS, right=("rate",), optional=("spare",), cut={"name": 12})

    return at


def test_all_of_it_where_there_is_room(shown: Callable[[int], str]) -> None:
    head, _, first, second = shown(100).splitlines()
    assert head.split() == ["name", "rate", "spare", "text"]
    assert first.split()[:3] == ["iter001_a_name_of_many_words", "1.5", "s" * 20]
    assert second.index("10.25") + 5 == first.index("1.5") + 3


def test_words_are_shortened_before_a_column_goes(shown: Callable[[int], str]) -> None:
    assert "iter001_a_nam…" in shown(78)
    assert "spare" in shown(78)


def test_an_optional_column_goes_where_words_cannot_give_enough(shown: Callable[[int], str]) -> None:
    assert "spare" not in shown(60)
    assert "some words some words some words" in shown(60)


def test_text_is_wrapped_at_last(shown: Callable[[int], str]) -> None:
    lines = shown(40).splitlines()
    assert max(map(len, lines)) <= 40
    assert len(lines) == 5
    assert " ".join(lines).count("some words") == 3


def test_a_column_that_nothing_fills_is_no_column() -> None:
    assert table([ROWS[1]], COLUMNS, optional=("spare",)).splitlines()[0].split() == ["name", "rate", "text"]


def test_formats_for_programs_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert "iter001_a_name_of_many_words" in table(ROWS, COLUMNS, "github", optional=("spare",), cut={"name": 12})
    with pytest.raises(UsageError, match="unknown table format 'none'"):
        table(ROWS, COLUMNS, "none")


def test_notes_stand_below_with_the_names_that_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert footnotes([("a", ["late"]), ("b", ["late", "noisy"])]) == "all: late\nb: noisy"
    assert footnotes([("a", ["late"])]) == "a: late"
    assert paragraph("one " * 12, "  ") == "one one one one one one one one one one\n  one one"
