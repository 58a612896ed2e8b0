"""Records of code that stayed the same: a change of the families that changes nothing of a kernel."""

from harness.records.base import IterationRecord


class SameCode(IterationRecord, frozen=True):
    """One iteration with one machine code by its families ``before_sha256`` and by those ``after_sha256``.

    ``code_sha256`` is of that code and its launch, compiled for ``arch`` by ``nvcc`` from what ``tilelang`` generated;
    or of the generated source, where the machine codes differ by the places of shared buffers. ``commit`` has the
    families of before.
    """

    source_sha256: str
    before_sha256: str
    after_sha256: str
    code_sha256: str
    commit: str
    arch: str
    nvcc: str
    tilelang: str
