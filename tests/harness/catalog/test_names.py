"""One parser for the names of iterations."""

import pytest

from harness.catalog import names
from harness.errors import UsageError


@pytest.mark.parametrize(("number", "tag"), [(0, "torch_matmul"), (7, "wide_tiles"), (999, "x2")])
def test_a_name_is_read_as_it_was_written(number: int, tag: str) -> None:
    assert names.parsed(names.name_of(number, tag)) == (number, tag)


@pytest.mark.parametrize("text", ["", "iter1_tag", "iter0001_tag", "iter001", "iter001_T", "iter001_t", "iter٠٠١_tag"])
def test_other_texts_are_not_names(text: str) -> None:
    assert names.parsed(text) is None


def test_what_a_person_types() -> None:
    assert [names.wanted(each) for each in ("3", "003", "iter003")] == [(3, None)] * 3
    assert names.wanted("iter003_tag") == names.wanted("3_tag") == (3, "iter003_tag")
    assert [names.short_number(each) for each in ("3", "003", "iter003", "iter003_tag", "x")] == [3, 3, 3, None, None]
    with pytest.raises(UsageError, match="'three' is neither a number such as 3, 003 or iter003 nor a name"):
        names.wanted("three")


def test_only_iteration_0_is_the_librarys() -> None:
    assert names.is_library("iter000_torch_matmul")
    assert not names.is_library("iter001_iter000_copy")


def test_numbers_in_the_files_of_foreign_trees() -> None:
    texts = ("iter005.py", "iter_5.py", "timing_iter5.txt", "iter12345.py", "other.py")
    assert [names.loose_number(each) for each in texts] == [5, 5, 5, None, None]
