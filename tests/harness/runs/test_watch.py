"""What watch says of a draft beside its parent."""

import msgspec

from harness.catalog.tree import Tree
from harness.records.base import Cause, Status
from harness.records.store import append
from harness.runs.watch import _against_parent
from tests.harness.examples import measurement, record

LADDER = ("cpu", "matmul_f32fp32_8x8x8", "me")


def test_only_a_source_that_passed_is_held_against_its_parent(tree: Tree) -> None:
    append(tree.records(*LADDER), record(measurement=measurement(0.9, 1.1)))
    draft = tree.parse(tree.source(*LADDER, "iter002_draft"))
    passed = record(iteration=draft.name, number=2, parent="iter001_idea", measurement=measurement(1.9, 2.1))
    assert list(_against_parent(tree, draft, passed)) == ["+100.0% against iter001_idea"]
    saved_again = msgspec.structs.replace(passed, status=Status.REJECTED, cause=Cause.SOURCE_CHANGED)
    assert list(_against_parent(tree, draft, saved_again)) == []
