"""Notebooks merged into one: each record once, in its order, and nothing written where two contradict each other."""

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.catalog.tree import Tree
from harness.cli.app import carry_out
from harness.errors import ExitCode, UsageError
from harness.records.builds import BuildRecord
from harness.records.results import BaselineRecord, Record
from harness.records.store import append, read
from harness.runs import gathering
from harness.runs.gathering import Gathered, gather
from tests.harness.envelopes import answer
from tests.harness.examples import baseline_record, record

SHAPE = "matmul_f32fp32_8x8x8"
RECORDS = [record(iteration=f"iter{number:03d}_idea", number=number) for number in range(1, 7)]


@pytest.fixture
def trees(tmp_path: Path) -> Callable[[str], Tree]:
    return lambda name: Tree(tmp_path / name)


def written(tree: Tree, *records: Record) -> Path:
    """The notebook of a tree in which these are recorded, sources and all."""
    for each in records:
        append(tree.records("cpu", SHAPE, each.model), each)
        path = tree.sources("cpu", SHAPE, each.model) / f"{each.iteration}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'"""{each.iteration}."""\n')
    append(tree.baseline("cpu", SHAPE), baseline_record())
    return tree.root / "tuning" / "cpu"


def recorded(tree: Tree) -> list[Record]:
    records, problems = read(tree.records("cpu", SHAPE, "me"), Record)
    assert problems == []
    return records


def build(attempt: str | None, **changes: str) -> BuildRecord:
    plain = msgspec.to_builtins(RECORDS[0])
    own = {name: plain[name] for name in BuildRecord.__struct_fields__ if name in plain and name != "build"}
    more = {"arch": "cpu", "nvcc": "", "disassembler": "", "tilelang": "0", "analysis": 1, "judge_sha256": "judge"}
    return msgspec.convert({**own, **more, "attempt": attempt, **changes}, BuildRecord)


@settings(max_examples=40)
@given(st.lists(st.lists(st.sampled_from(RECORDS), max_size=8), max_size=4), st.lists(st.sampled_from(RECORDS)))
def test_every_record_is_there_once_and_a_second_time_adds_nothing(
    tmp_path_factory: pytest.TempPathFactory, others: list[list[Record]], own: list[Record]
) -> None:
    base = tmp_path_factory.mktemp("notebooks")
    tree = Tree(base / "own")
    written(tree, *dict.fromkeys(own))
    folders = [written(Tree(base / str(number)), *each) for number, each in enumerate(others)]
    gather(tree, folders)
    assert recorded(tree) == list(dict.fromkeys([*own, *(each for records in others for each in records)]))
    content = tree.records("cpu", SHAPE, "me").read_bytes() if recorded(tree) else b""
    again, complaints = gather(tree, folders)
    assert [(each.iterations, each.records) for each in again] == [(0, 0)] * bool(folders)
    assert complaints == []
    assert content == (tree.records("cpu", SHAPE, "me").read_bytes() if content else b"")
    shutil.rmtree(base)


def test_iterations_records_and_the_files_beside_them_arrive(trees: Callable[[str], Tree]) -> None:
    tree, other = trees("own"), trees("other")
    written(tree, RECORDS[0])
    folder = written(other, *RECORDS)
    counters = other.folder("cpu") / "perf" / SHAPE / "me" / "ncu_iter003.csv"
    counters.parent.mkdir(parents=True)
    counters.write_text("counters\n")
    assert gather(tree, [folder]) == ([Gathered("cpu", iterations=5, records=5, known=2)], [])
    base = tree.folder("cpu")
    assert len(list((base / "srcs" / SHAPE / "me").glob("*.py"))) == 6
    assert (base / "perf" / SHAPE / "me" / "ncu_iter003.csv").read_text() == "counters\n"
    assert (base / "perf" / SHAPE / "me" / "timing_iter006.txt").read_text().startswith("VERIFY: PASS")
    assert (base / "logs" / SHAPE / "me" / "results.tsv").read_text().count("\n") == 7
    assert read(tree.baseline("cpu", SHAPE), BaselineRecord)[0] == [baseline_record()]


@pytest.mark.parametrize("named", ["tuning/cpu", "tuning", "."])
def test_a_notebook_is_found_by_its_folder_or_what_holds_it(trees: Callable[[str], Tree], named: str) -> None:
    tree, other = trees("own"), trees("other")
    written(other, *RECORDS)
    assert gather(tree, [other.root / named])[0] == [Gathered("cpu", 6, 7, 0)]


def test_the_notebook_itself_adds_nothing(trees: Callable[[str], Tree]) -> None:
    tree = trees("own")
    assert gather(tree, [written(tree, *RECORDS)])[0] == [Gathered("cpu", 0, 0, 0)]
    assert recorded(tree) == RECORDS


def test_a_torn_last_line_is_reported_and_left(trees: Callable[[str], Tree]) -> None:
    tree, other = trees("own"), trees("other")
    written(tree, RECORDS[0])
    folder = written(other, *RECORDS[1:3])
    path = other.records("cpu", SHAPE, "me")
    path.write_bytes(path.read_bytes()[:-1])  # all but its end: still not a whole line
    _, complaints = gather(tree, [folder])
    assert complaints == [f"{path}:2: torn last line, left"]
    assert recorded(tree) == RECORDS[:2]


def test_after_a_torn_line_of_its_own_the_gathered_lines_are_whole(trees: Callable[[str], Tree]) -> None:
    tree, other = trees("own"), trees("other")
    written(tree, *RECORDS[:2])
    path = tree.records("cpu", SHAPE, "me")
    path.write_bytes(path.read_bytes()[:-40])
    gather(tree, [written(other, *RECORDS[1:4])])
    assert read(path, Record)[0] == RECORDS[:4]


def test_a_line_that_is_no_record_is_reported_and_left(trees: Callable[[str], Tree]) -> None:
    tree, other = trees("own"), trees("other")
    folder = written(other, RECORDS[0])
    path = other.records("cpu", SHAPE, "me")
    path.write_bytes(b'nothing\n\xff\n{"schema": 99}\n[]\n\n' + path.read_bytes())
    _, complaints = gather(tree, [folder])
    assert [each.removeprefix(f"{path}:")[0] for each in complaints] == ["1", "2", "3", "4"]
    assert recorded(tree) == RECORDS[:1]


def test_two_records_of_one_id_are_an_error_that_names_both_files(
    trees: Callable[[str], Tree], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, other = trees("own"), trees("other")
    written(tree, RECORDS[0])
    folder = written(other, RECORDS[1])
    monkeypatch.setattr(gathering, "content_id", lambda content: "same")
    with pytest.raises(UsageError) as error:
        gather(tree, [folder])
    for each in (tree, other):
        assert f"{each.records('cpu', SHAPE, 'me')}:1" in str(error.value)
    assert "the id same" in str(error.value)
    assert recorded(tree) == RECORDS[:1]


def test_one_attempt_of_two_sources_is_an_error_and_nothing_is_written(trees: Callable[[str], Tree]) -> None:
    tree, other = trees("own"), trees("other")
    written(tree, RECORDS[0])
    append(tree.builds("cpu", SHAPE, "me"), build("attempt0001"))
    folder = written(other, *RECORDS)
    append(other.builds("cpu", SHAPE, "me"), build("attempt0001", source_sha256="another"))
    with pytest.raises(UsageError, match="different records of attempt attempt0001"):
        gather(tree, [folder])
    assert recorded(tree) == RECORDS[:1]
    assert len(list((tree.folder("cpu") / "srcs").rglob("*.py"))) == 1


def test_the_same_attempt_and_builds_without_one_are_merged(trees: Callable[[str], Tree]) -> None:
    tree, other = trees("own"), trees("other")
    append(tree.builds("cpu", SHAPE, "me"), build("attempt0001"))
    theirs = [build("attempt0001"), build(None), build("attempt0002"), build(None, source_sha256="another")]
    for each in theirs:
        append(other.builds("cpu", SHAPE, "me"), each)
    gather(tree, [other.root])
    assert read(tree.builds("cpu", SHAPE, "me"), BuildRecord)[0] == theirs


def race(tree: Tree, *rungs: int, number: int = 1) -> Path:
    """A search's trials, one a rung."""
    path = tree.records("cpu", SHAPE, "me").with_name("tuning.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ({"schema": 1, "recorded_at": "", "gpu": "cpu", "race": number, "rung": rung} for rung in rungs)
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    return path


def test_a_race_that_went_on_elsewhere_is_completed(trees: Callable[[str], Tree]) -> None:
    tree, other = trees("own"), trees("other")
    race(tree, 0, 1)
    theirs = race(other, 0, 1, 2, 3)
    gather(tree, [other.root])
    assert race(tree, 0, 1, 2, 3).read_bytes() == theirs.read_bytes()


def test_two_races_of_one_number_are_an_error_that_names_both_files(trees: Callable[[str], Tree]) -> None:
    tree, other = trees("own"), trees("other")
    ours, theirs = race(tree, 0, 1), race(other, 0, 2)
    with pytest.raises(UsageError) as error:
        gather(tree, [other.root])
    assert f"{ours}:2 and {theirs}:2 are different records of race 1" in str(error.value)


@pytest.mark.parametrize("name", ["iter001_idea.py", "iter001_another_tag.py"])
def test_two_iterations_of_one_number_are_an_error_that_names_both_files(
    trees: Callable[[str], Tree], name: str
) -> None:
    tree, other = trees("own"), trees("other")
    written(tree, RECORDS[0])
    folder = written(other, *RECORDS[1:])
    path = other.sources("cpu", SHAPE, "me") / name
    path.write_text("another\n")
    with pytest.raises(UsageError) as error:
        gather(tree, [folder])
    assert str(path) in str(error.value)
    assert str(tree.sources("cpu", SHAPE, "me") / "iter001_idea.py") in str(error.value)
    assert recorded(tree) == RECORDS[:1]


def test_an_operator_that_only_the_other_repository_has_is_refused_and_nothing_is_written(
    trees: Callable[[str], Tree],
) -> None:
    own, other = trees("own"), trees("other")
    place = written(other, RECORDS[0]) / "tilelang" / "srcs"
    (place / SHAPE).rename(place / "rownorm_f32fp32_64x256")
    with pytest.raises(UsageError, match=r"rownorm_f32fp32_64x256: .*unknown operator 'rownorm'.*copy the operator's"):
        gather(own, [other.root])
    assert not own.root.exists()


def test_a_record_of_another_gpu_is_refused(trees: Callable[[str], Tree]) -> None:
    other = trees("other")
    written(other, RECORDS[0])
    (other.root / "tuning" / "cpu").rename(other.root / "tuning" / "h200")
    with pytest.raises(UsageError, match=r"results\.jsonl:1 is a record of cpu, in a notebook of h200"):
        gather(trees("own"), [other.root])


def test_a_folder_that_holds_none_is_refused(trees: Callable[[str], Tree], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no notebook"):
        gather(trees("own"), [tmp_path])
    (tmp_path / "elsewhere" / "tilelang").mkdir(parents=True)
    with pytest.raises(UsageError, match="unknown GPU key 'elsewhere'"):
        gather(trees("own"), [tmp_path / "elsewhere"])


def test_the_verb_says_what_came(
    trees: Callable[[str], Tree], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = trees("own").root
    own.mkdir(exist_ok=True)
    monkeypatch.setenv("TILEBENCH_ROOT", str(own))
    folder = written(trees("other"), *RECORDS)
    assert carry_out(["gather", str(folder)]) is ExitCode.PASSED
    assert capsys.readouterr().out == "cpu: 6 iterations and 7 records added, 0 known before\n"
    assert carry_out(["gather", str(folder), "--json"]) is ExitCode.PASSED
    assert answer(capsys.readouterr().out) == [{"gpu": "cpu", "iterations": 0, "records": 0, "known": 7}]
    assert carry_out(["gather"]) is ExitCode.USAGE
    assert "gather needs the folders" in capsys.readouterr().err
