"""What the records say of two environments: the newest of each iteration, and only what belongs together."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from harness.extras.versus.history import Upgrade, upgrades
from harness.extras.versus.shift import Shift
from tests.harness.extras.versus.test_pairing import NEW, OLD, record

OTHER = msgspec.structs.replace(OLD, name="base", tilelang="0.1.15", torch="2.12.0", sha256="c")


def only(*records: Any) -> Upgrade:
    (found,) = upgrades(records)
    return found


def test_a_row_is_of_the_newest_records_of_one_source() -> None:
    slower, swapped = record(0.97), record(1 / 0.97, swapped=True)
    assert [each.verdict for each in only(slower, swapped).rows] == [Shift.SLOWER]
    assert [each.verdict for each in only(slower, swapped, record(1.001)).rows] == [Shift.SAME]
    changed = record(0.97, source_sha256="t")
    (row,) = only(changed, swapped).rows
    assert row.verdict is Shift.UNDECIDED  # the second measurement is of another source


def test_every_two_environments_are_apart_and_the_newest_is_first() -> None:
    found = upgrades([record(1.0), record(1.0, old=OTHER, recorded_at="2026-11-24")])
    assert [each.title for each in found] == ["torch 2.12.0 > 2.13.0", "TileLang 0.1.14 > 0.1.15"]
    alike = msgspec.structs.replace(NEW, name="./copy", sha256="d")
    assert replace(found[0], old=NEW, new=alike).title == "0.1.15 > ./copy"


@pytest.mark.parametrize("lost", [record(0.97, swapped=True)])
def test_a_notebook_that_lost_a_line_is_read(lost: Any) -> None:
    assert len(only(lost).rows) == 1
