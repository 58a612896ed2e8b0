"""The notebook under tuning/ reads back line by line: fields keep their names and order, records their ids."""

from pathlib import Path

import msgspec
import pytest

from harness.records import published
from harness.records.builds import BuildRecord
from harness.records.ceilings import CeilingRecord
from harness.records.pairs import PairRecord
from harness.records.playoffs import PlayOff
from harness.records.profiles import ProfileRecord
from harness.records.results import BaselineRecord, Record
from harness.records.same_code import SameCode
from harness.records.store import read
from harness.records.sustained import SustainedRecord

TUNING = Path(__file__).resolve().parents[3] / "tuning"
KINDS: dict[str, type[msgspec.Struct]] = {
    "logs/*/*/results.jsonl": Record,
    "logs/*/*/builds.jsonl": BuildRecord,
    "logs/*/*/profiles.jsonl": ProfileRecord,
    "logs/*/*/same_code.jsonl": SameCode,
    "logs/*/*/sustained.jsonl": SustainedRecord,
    "logs/*/play_offs.jsonl": PlayOff,
    "logs/*/pairs.jsonl": PairRecord,
    "ceilings.jsonl": CeilingRecord,
    "baseline/*/results.jsonl": BaselineRecord,
}


def fields(content: bytes) -> list[str]:
    """The names of an object's fields that have a value, in their order."""
    return [name for name, value in msgspec.json.decode(content).items() if value not in (None, [], {})]


@pytest.mark.parametrize("pattern", KINDS)
def test_every_line_reads_back_as_it_was_written(pattern: str) -> None:
    paths = sorted(TUNING.glob(f"*/tilelang/{pattern}"))
    assert paths
    for path in paths:
        records, problems = read(path, KINDS[pattern])
        assert problems == []
        for record, line in zip(records, path.read_bytes().splitlines(), strict=True):
            written = fields(line)
            assert fields(msgspec.json.encode(record))[: len(written)] == written  # fields of later versions follow


@pytest.mark.parametrize("gpu", ["h100", "h200"])
def test_ids_that_were_published_still_name_their_records(gpu: str) -> None:
    winners = published.read(published.place(TUNING.parent, gpu)).winners
    for problem, winner in winners.items():
        model = winner.iteration.partition("/")[0]
        records, _ = read(TUNING / gpu / "tilelang" / "logs" / problem / model / "results.jsonl", Record)
        assert winner.record in {record.id for record in records}, problem
