"""Records of code that stayed the same: a change of the families that changes nothing of a kernel."""

from pathlib import Path

from harness.records.base import IterationRecord
from harness.records.store import read


class SameCode(IterationRecord, frozen=True):
    """One iteration with one machine code by its families ``before_sha256`` and by those ``after_sha256``.

    ``code_sha256`` is of that code and its launch, compiled for ``arch`` by ``nvcc`` from what ``tilelang`` generated.
    Some older records have the generated source's instead. ``commit`` has the families of before.
    """

    source_sha256: str
    before_sha256: str
    after_sha256: str
    code_sha256: str
    commit: str
    arch: str
    nvcc: str
    tilelang: str


def alike(path: Path, source_sha256: str, families_sha256: str, tilelang: str) -> frozenset[str]:
    """The hashes of all families that give a source the code that these give it, by one TileLang.

    ``path`` has the records of the source's ladder.
    """
    pairs = [
        {each.before_sha256, each.after_sha256}
        for each in read(path, SameCode)[0]
        if (each.source_sha256, each.tilelang) == (source_sha256, tilelang)
    ]
    known = {families_sha256}
    while more := set().union(*(pair for pair in pairs if pair & known)) - known:
        known |= more
    return frozenset(known)
