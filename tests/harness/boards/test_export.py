"""Records as a flat table: the same in every format, and in the data dictionary."""

import csv
import io
import json
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import msgspec
import pyarrow.parquet
import pytest
from packaging.requirements import Requirement

from harness.boards import exports
from harness.catalog.tree import Tree
from harness.errors import UsageError
from harness.records.builds import KernelEvidence
from harness.records.store import append
from tests.harness.checkout import ROOT, Checkout, one_line
from tests.harness.examples import record

SHAPE = "matmul_f32fp32_8x8x8"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    made = Tree(tmp_path)
    append(made.records("cpu", SHAPE, "me"), record())
    append(made.records("cpu", SHAPE, "me"), record(number=2, iteration="iter002_more", measurement=None))
    return made


def test_every_format_says_the_same(tree: Tree) -> None:
    checkout = Checkout(tree.root)
    printed = checkout.run("export", "--gpu", "cpu")
    assert printed.returncode == 0, printed.stderr
    by_csv = list(csv.DictReader(io.StringIO(printed.stdout)))
    by_json = json.loads(checkout.run("export", "--gpu", "cpu", "--format", "json").stdout)
    assert checkout.run("export", "--gpu", "cpu", "--output", "a/folder/records.parquet").returncode == 0
    by_parquet = pyarrow.parquet.read_table(tree.root / "a/folder/records.parquet").to_pylist()
    assert by_json == by_parquet
    assert [{name: "" if value is None else str(value) for name, value in row.items()} for row in by_json] == by_csv
    assert [row["iteration"] for row in by_json] == ["iter001_idea", "iter002_more"]
    assert [row["time_ms"] is None for row in by_json] == [False, True]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--gpu", "cpu", "--output", "records.xls"), "the suffix of --output records.xls is not csv, json, parquet"),
        (("--gpu", "h200"), "nothing under tuning/h200/ is recorded yet, so there is nothing to export; bench first"),
    ],
)
def test_what_cannot_be_exported_is_said(tree: Tree, words: tuple[str, ...], says: str) -> None:
    refused = Checkout(tree.root).run("export", *words)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert says in one_line(refused.stderr)
    assert not (tree.root / "records.xls").exists()


def test_json_has_the_envelope_and_an_unknown_problem_is_left_out(tree: Tree) -> None:
    strange = record(shape_key="nothing_f32fp32_8")
    append(tree.records("cpu", "nothing_f32fp32_8", "me"), strange)
    printed = Checkout(tree.root).run("export", "--gpu", "cpu", "--json")
    assert printed.returncode == 0, printed.stderr
    told = json.loads(printed.stdout)
    assert (told["verb"], told["data"]["records"], told["data"]["path"]) == ("export", 2, None)
    assert [row["iteration"] for row in told["data"]["rows"]] == ["iter001_idea", "iter002_more"]
    assert told["problems"][0].startswith("records of nothing_f32fp32_8 are left out: shape key ")


def test_a_selection_narrows_the_rows(tree: Tree) -> None:
    rows = json.loads(Checkout(tree.root).run("export", "--gpu", "cpu", "--format", "json", "--iter", "2").stdout)
    assert [row["number"] for row in rows] == [2]


def test_the_values_have_the_columns_types(tree: Tree) -> None:
    kernel = KernelEvidence("main", (1, 1, 1), 128, (1, 1, 1), 0, registers=168)
    build = record().build
    assert build is not None
    made = record(build=msgspec.structs.replace(build, kernels=(kernel,)))
    (row,) = exports.rows([made])
    for name, (kind, _, _) in exports.COLUMNS.items():
        value = row[name]
        assert value is None or isinstance(value, kind) or (kind is float and isinstance(value, int)), name
    assert row["registers_per_thread"] == 168


def test_without_pyarrow_the_hint_installs_what_this_project_pins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError) as refused:
        exports.write([], "parquet", tmp_path / "records.parquet")
    assert str(refused.value).endswith(f"{ROOT}[parquet]'")
    (pin,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["parquet"]
    wanted = Requirement(pin)
    assert wanted.name == "pyarrow" and wanted.specifier.contains(version("pyarrow"))
