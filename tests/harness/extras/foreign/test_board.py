"""The board of a foreign tree reports unreadable claims, and reads the others."""

from pathlib import Path

import msgspec
import pytest

from harness.catalog.tree import Selection
from harness.extras.foreign.board import boards
from harness.extras.foreign.record import Basis, ForeignRecord
from harness.extras.foreign.scripts import scripts
from harness.records.base import Status
from tests.harness.checkout import SHAPE
from tests.harness.examples import ENVIRONMENT


def test_a_claim_that_cannot_be_read_is_said_once_and_the_rest_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    srcs, logs = (tmp_path / part / SHAPE / "somebody" for part in ("srcs", "logs"))
    srcs.mkdir(parents=True)
    logs.mkdir(parents=True)
    for number in (1, 2):
        (srcs / f"iter00{number}_idea.py").write_text("kernel = None\n")
    lines = ("[" * 100_000, '{"iteration": "iter001", "time_ms": 2, "measurement": 1.5}')
    (logs / "results.jsonl").write_text("\n".join(lines))
    first = ForeignRecord(
        schema=1,
        recorded_at="2026-01-01T00:00:00.000+00:00",
        gpu="cpu",
        shape_key=SHAPE,
        model="somebody",
        script="iter001_idea",
        number=1,
        tree="theirs",
        basis=Basis.SELF_REPORTED,
        status=Status.FAILED,
        sources_sha256="sources",
        finder_sha256="finder",
        environment=ENVIRONMENT,
    )
    listed, _ = scripts(tmp_path, Selection())
    records = (first, msgspec.structs.replace(first, script="iter002_idea", number=2))
    (board,) = boards(list(zip(listed, records, strict=True)))
    assert [row.claimed_ms for row in board.self_reported] == [2, None]
    assert capsys.readouterr().err == f"{logs / 'results.jsonl'}:1: its JSON is nested too deeply\n"
