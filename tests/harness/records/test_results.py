"""Records are appended whole, read strictly, and never lost."""

import fcntl
import multiprocessing
import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.errors import InfrastructureError
from harness.records.base import Cause, Stage, Status
from harness.records.results import BaselineRecord, BlockPair, Record
from harness.records.store import append, read
from tests.harness.examples import baseline_record, measurement, record


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "results.jsonl"


def test_what_is_appended_is_read(path: Path) -> None:
    first, second = (
        record(),
        record(number=2, iteration="iter002_more", status=Status.REJECTED, cause=Cause.WRONG_RESULT),
    )
    append(path, first)
    append(path, second)
    assert read(path, Record) == ([first, second], [])


def test_a_baseline_record_is_read_as_one(path: Path) -> None:
    append(path, baseline_record())
    assert read(path, BaselineRecord) == ([baseline_record()], [])


def test_there_are_no_records_where_there_is_no_file(path: Path) -> None:
    assert read(path, Record) == ([], [])


@pytest.mark.parametrize("keep", [1, 40, -2])
def test_a_torn_last_line_is_ignored_and_reported_and_the_next_record_is_whole(path: Path, keep: int) -> None:
    append(path, record())
    append(path, record(number=2))
    whole, last = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(whole + last[:keep])
    records, problems = read(path, Record)
    assert records == [record()]
    assert [problem.startswith(f"{path}:2: torn last line, ignored") for problem in problems] == [True]

    append(path, record(number=3))
    records, problems = read(path, Record)
    assert [each.number for each in records] == [1, 3]
    assert len(problems) == 1


def test_a_last_line_that_lacks_only_its_end_is_a_record(path: Path) -> None:
    append(path, record())
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    append(path, record(number=2))
    assert [each.number for each in read(path, Record)[0]] == [1, 2]


@pytest.mark.parametrize(
    "garbage", [b"not json", b'{"schema":1}', b"\xff\xfe\x00", b"[" * 100_000, b'{"a":"\xed\xa0\x80"}']
)
def test_a_garbled_line_is_named_and_hides_no_other(path: Path, garbage: bytes) -> None:
    append(path, record())
    path.write_bytes(path.read_bytes() + garbage + b"\n")
    append(path, record(number=2))
    records, problems = read(path, Record)
    assert [each.number for each in records] == [1, 2]
    assert len(problems) == 1
    assert problems[0].startswith(f"{path}:2: not a record")


@pytest.mark.parametrize(
    ("field", "value"), [("schema", 2), ("status", "good"), ("number", "1"), ("surprise", 1), ("cause", "bad luck")]
)
def test_a_record_of_another_schema_is_ignored_and_reported(path: Path, field: str, value: object) -> None:
    path.parent.mkdir()
    path.write_bytes(msgspec.json.encode(msgspec.to_builtins(record()) | {field: value}) + b"\n")
    records, problems = read(path, Record)
    assert records == []
    assert problems[0].startswith(
        f"{path}:1: {'made by a tilebench of schema 2' if field == 'schema' else 'not a record'}"
    )
    assert field in problems[0]


def test_a_complaint_is_one_line(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(msgspec.json.encode(msgspec.to_builtins(record()) | {"multi\nline": 1}) + b"\n")
    assert "\n" not in read(path, Record)[1][0]


def test_records_that_cannot_be_read_or_written_are_an_error_that_names_the_file(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(InfrastructureError, match=f"{path}: the records cannot be read"):
        read(path, Record)
    with pytest.raises(InfrastructureError, match=f"{path}: the record cannot be written"):
        append(path, record())


def append_many(path: Path, model: str, count: int) -> None:
    blocks = tuple(BlockPair(placement, 1.5, 2.5) for placement in range(1000))  # longer than a buffer
    for number in range(count):
        append(path, record(model=model, number=number, measurement=measurement(1.0, 1.1, blocks=blocks)))


def test_a_link_in_the_place_of_records_is_not_followed(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InfrastructureError, match="the record cannot be written: Too many levels of symbolic links"):
        append(path, baseline_record())
    assert not (tmp_path / "elsewhere").exists()


def test_two_processes_at_once_lose_and_double_nothing(path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=append_many, args=(path, model, 100)) for model in ("me", "you")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    records, problems = read(path, Record)
    assert problems == []
    assert [each.number for each in records if each.model == "me"] == list(range(100))
    assert [each.number for each in records if each.model == "you"] == list(range(100))


def test_a_writer_waits_for_another(path: Path) -> None:
    append(path, record())
    writer = threading.Thread(target=append, args=(path, record(number=2)))
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        writer.start()
        writer.join(0.2)
        assert len(read(path, Record)[0]) == 1
    writer.join()
    assert len(read(path, Record)[0]) == 2


lines = st.binary(max_size=80) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=8), children, max_size=4),
).map(msgspec.json.encode)
damaged = st.tuples(
    st.integers(0, 1200), st.binary(max_size=6), st.just(msgspec.json.encode(record()))
).map(lambda damage: damage[2][: damage[0]] + damage[1] + damage[2][damage[0] + len(damage[1]) :])  # fmt: skip


@given(st.lists(lines | damaged, max_size=5).map(b"\n".join))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_reading_anything_gives_records_or_complaints(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(content)
    lines_there = sum(bool(line.strip()) for line in content.split(b"\n"))
    records, complaints = read(path, Record)
    assert len(records) + len(complaints) == lines_there
    baselines, complaints = read(path, BaselineRecord)
    assert len(baselines) + len(complaints) == lines_there


def test_a_record_answers_a_run_that_wants_no_more(path: Path) -> None:
    verified = record(stage=Stage.VERIFY, measurement=None)
    assert verified.answers(Stage.VERIFY)
    assert not verified.answers(Stage.BENCH)
    assert record().answers(Stage.VERIFY)
    assert record(stage=Stage.BUILD, status=Status.FAILED).answers(Stage.BENCH)


def test_the_id_is_of_the_content() -> None:
    assert record().id == record().id != record(number=2).id
