"""Whether a record of another kind has the code of a row."""

from typing import Protocol

from harness.boards.board import BoardRow
from harness.catalog.tree import Tree
from harness.records.results import Record
from harness.records.same_code import alike


class CodeHashes(Protocol):
    """The hashes of an iteration's source and of the families that it imports."""

    @property
    def source_sha256(self) -> str: ...

    @property
    def families_sha256(self) -> str: ...


def same_code(tree: Tree, row: BoardRow | Record, code: CodeHashes, tilelang: str) -> bool:
    """Whether ``code`` has a row's source, and families that give this source the same code by this TileLang."""
    if row.source_sha256 != code.source_sha256:
        return False
    problem, model, _ = row.key
    path = tree.same_code(row.gpu, problem, model)
    return row.families_sha256 == code.families_sha256 or row.families_sha256 in alike(
        path, code.source_sha256, code.families_sha256, tilelang
    )
