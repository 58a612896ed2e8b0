"""Whatever text arrives, a parser takes it or refuses it in one printable line; ``make fuzz`` asks 10,000 times."""

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.catalog import gpus
from harness.catalog.tree import Selection, Tree
from harness.errors import TilebenchError
from harness.evidence import banks, sass
from harness.extras.profile import report
from harness.judge import contract
from harness.judge.facts import ptxas
from harness.judge.facts.compilation import kernel_names
from harness.judge.facts.problem import parse_shape_key
from harness.machine.nvml import Device
from harness.records.builds import BuildRecord
from harness.records.profiles import ProfileRecord
from harness.records.results import BaselineRecord, Record
from harness.records.store import append, read
from harness.runs import companion_files
from tests.harness.checkout import ROOT
from tests.harness.examples import record

REPORT: Final = (ROOT / "tests/data/ncu_h200_stock_4096.csv").read_text()
KEY_PARTS: Final = [
    *("matmul", "linear", "_", "bf16", "fp32", "f32", "e4m3", "x", "0", "1", "64", "8192", "99999999", "-"),
    *("\u0663", "\n", "\x1b[31m", "matmul_bf16fp32_64x64x64"),
]
CODE_PARTS: Final = [
    *('"""One idea."""', "\n", "import ", "from ", "torch", "kernels", "PARENT", "CONFIG", " = ", "None", "dict("),
    *(")", "(", "block_M=", "128", "def build(problem):\n    return ", "problem", "[", "]", "lambda: ", "\t", "\0"),
    *("\x1b[2J", "@", "é", "eval", ".matmul", "await ", "f'{", "'", "#", "\\", "if 1:\n    ", "yield "),
]
FILES: Final = ["iter001_idea.py", "iter1.py", "iter001_.py", "\x1b.py"]
DEVICES: Final = [
    Device(0, "NVIDIA H200", "GPU-aa-1", "580", 700.0),
    Device(1, "NVIDIA A100-SXM4-80GB", "GPU-bb-2", "580", 400.0),
]

shape_like = st.lists(st.sampled_from(KEY_PARTS), max_size=12).map("".join) | st.text(max_size=60)
code_like = st.lists(st.sampled_from(CODE_PARTS), max_size=40).map("".join) | st.text(max_size=200)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


def one_line(error: BaseException) -> None:
    assert str(error)
    assert str(error).isprintable(), repr(str(error))


def taken_or_refused(call: Callable[[], object]) -> None:
    try:
        call()
    except TilebenchError as error:
        one_line(error)


@given(text=shape_like)
def test_shape_keys(text: str) -> None:
    taken_or_refused(lambda: parse_shape_key(text))


@given(parts=st.lists(shape_like, max_size=9), name=st.sampled_from(FILES))
def test_paths(parts: list[str], name: str) -> None:
    path = Path("/nowhere", *(part.replace("\0", "").replace("/", "") for part in parts), name)
    taken_or_refused(lambda: Tree(Path("/nowhere")).parse(path))


@given(shape=shape_like, model=shape_like, iteration=shape_like)
def test_selections(shape: str, model: str, iteration: str) -> None:
    selection = Selection(shape or None, model or None, iteration or None)
    taken_or_refused(lambda: Tree(ROOT).scan("cpu", selection))


@pytest.mark.parametrize("kind", [Record, BaselineRecord, BuildRecord, ProfileRecord])
@given(data=st.data())
def test_records(kind: Any, folder: Path, data: st.DataObject) -> None:
    path = folder / "fuzzed.jsonl"
    line = bytearray(msgspec.json.encode(record()))
    for _ in range(data.draw(st.integers(0, 8))):
        at = data.draw(st.integers(0, len(line)))
        line[at : at + data.draw(st.integers(0, 20))] = data.draw(st.binary(max_size=12))
    path.write_bytes(data.draw(st.binary(max_size=40)) + b"\n" + bytes(line) + b"\n")
    found, problems = read(path, kind)
    assert len(found) + len(problems) == sum(bool(each.strip()) for each in path.read_bytes().split(b"\n"))
    for problem in problems:
        assert problem.startswith(f"{path}:")
        assert problem.isprintable(), repr(problem)


@given(schema=st.integers(-9, 9) | st.text(max_size=5) | st.none())
def test_records_of_another_schema_say_which(folder: Path, schema: object) -> None:
    path = folder / "schema.jsonl"
    path.write_text(json.dumps({"schema": schema, "what": "is to come"}) + "\n")
    found, (problem,) = read(path, Record)
    assert not found
    assert (f"of schema {schema}" if isinstance(schema, int) else "not a record") in problem


@given(reason=st.text(max_size=200), idea=st.text(max_size=100))
def test_the_spreadsheet_has_a_row_for_each_record(folder: Path, reason: str, idea: str) -> None:
    tree = Tree(folder)
    path = folder / "tuning/cpu/tilelang/srcs/matmul_f32fp32_8x8x8/me/iter001_idea.py"
    records = tree.records("cpu", "matmul_f32fp32_8x8x8", "me")
    records.unlink(missing_ok=True)
    text = {"reason": reason, "idea": idea}
    append(records, msgspec.structs.replace(record(), **_encodable(text)))
    append(records, record())
    companion_files.write(tree, tree.parse(path), record())
    with records.with_suffix(".tsv").open(newline="") as file:
        rows = list(csv.reader(file, delimiter="\t"))
    assert len(rows) == 3
    assert {len(row) for row in rows} == {len(rows[0])}


@given(data=st.data())
def test_reports_of_ncu(data: st.DataObject) -> None:
    columns = data.draw(st.integers(1, 40))
    text = "\n".join(",".join(line.split(",")[:columns]) for line in REPORT.splitlines())
    for _ in range(data.draw(st.integers(0, 6))):
        at = data.draw(st.integers(0, len(text)))
        put = data.draw(st.text(max_size=8) | st.sampled_from(['"', ",", "\n", "nan", "1e999", "\ufeff"]))
        text = text[:at] + put + text[at + 1 :]
    taken_or_refused(lambda: [kernel.name for kernel in report.parse(text, "report.csv")])


@given(text=st.text(max_size=400) | st.binary(max_size=200).map(lambda raw: raw.decode("latin-1")))
def test_what_compilers_say(text: str) -> None:
    """Figures are found, or they are not; nothing is raised."""
    for each in (text, "__global__ " + text, 'extern "C" __global__ void main_kernel() {' + text):
        banks.conflicts(each)
        kernel_names(each)
    ptxas.usage(text)
    ptxas.remarks(text)
    sass.read(text)


@given(source=code_like)
def test_sources(folder: Path, source: str) -> None:
    path = Tree(folder).source("cpu", "matmul_f32fp32_8x8x8", "me", "iter001_idea")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source, encoding="utf-8", errors="surrogatepass")
    iteration = Tree(folder).parse(path)
    try:
        terms = contract.check(iteration)
    except contract.Breach as breach:
        one_line(breach)
    else:
        assert (terms.idea + terms.config).isprintable()


@pytest.fixture
def no_table() -> Iterator[None]:
    original = gpus._FILE
    yield
    gpus._FILE = original  # type: ignore[misc]
    gpus.table.cache_clear()


@pytest.mark.usefixtures("no_table")
@given(
    row=st.dictionaries(
        st.sampled_from(["arch", "name", "sms", "l2_mib", "bf16_tflops", "odd"]), st.integers() | st.text(max_size=9)
    )
)
def test_the_table_of_gpus(folder: Path, row: dict[str, Any]) -> None:
    path = folder / "gpus.toml"
    body = "\n".join(f"{name} = {json.dumps(value)}" for name, value in row.items())
    path.write_text(f"[some]\n{body}\n", errors="surrogatepass")
    gpus._FILE = path  # type: ignore[misc]
    gpus.table.cache_clear()
    taken_or_refused(lambda: gpus.key_of("NVIDIA H200"))


@given(said=st.text(alphabet="01,-GPUab ", max_size=12) | st.text(max_size=12))
def test_visible_devices(said: str) -> None:
    chosen = gpus.visible(DEVICES, said)
    assert all(device in DEVICES for device in chosen)
    assert len({device.uuid for device in chosen}) == len(chosen)


def _encodable(texts: dict[str, str]) -> dict[str, str]:
    return {name: text.encode("utf-8", "replace").decode() for name, text in texts.items()}
