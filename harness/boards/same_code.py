"""Families that give an iteration one code: what ``freshen`` found, as the boards read it."""

from harness.catalog.tree import Tree
from harness.records.same_code import SameCode
from harness.records.store import read


def alike(
    tree: Tree, key: tuple[str, str, str], source_sha256: str, families_sha256: str, tilelang: str
) -> frozenset[str]:
    """The hashes of all families that give a source the code that these give it, by one TileLang.

    ``key`` is of GPU, problem and model.
    """
    found, _ = read(tree.same_code(*key), SameCode)
    pairs = [
        {each.before_sha256, each.after_sha256}
        for each in found
        if (each.source_sha256, each.tilelang) == (source_sha256, tilelang)
    ]
    known = {families_sha256}
    while more := set().union(*(pair for pair in pairs if pair & known)) - known:
        known |= more
    return frozenset(known)
