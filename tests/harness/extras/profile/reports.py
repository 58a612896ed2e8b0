"""Reports for the tests: those of an H200 under tests/data, and rows made from them."""

import csv
import io
from pathlib import Path
from typing import Final

from harness.catalog.gpus import find
from harness.extras.profile.figures import FIGURES, Figures, figures
from harness.extras.profile.report import parse
from harness.judge.facts.gpu import Gpu
from harness.judge.facts.problem import Problem, parse_shape_key

DATA: Final = Path(__file__).resolve().parents[3] / "data"
SHAPE: Final = "matmul_bf16fp32_4096x4096x4096"
# 128x256x64 tiles in four stages: TileLang's own schedule, one block a tile; and persistent, specialised by hand.
STOCK: Final = DATA / "ncu_h200_stock_4096.csv"
PERSISTENT: Final = DATA / "ncu_h200_persistent_4096.csv"
STOCK_CONFIG: Final = (
    "block_M=128, block_N=256, block_K=64, num_stages=4, threads=256, policy='square', panel=0, epilogue='direct'"
)
PERSISTENT_CONFIG: Final = (
    "block_M=128, block_N=256, block_K=64, num_stages=4, consumer_groups=2, cluster_M=1, cluster_N=1, group_M=16, "
    "persistent=True, wgmma_in_flight=1, epilogue='tma'"
)


def problem() -> Problem:
    return parse_shape_key(SHAPE)


def h200() -> Gpu:
    return find("h200")


def rows(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


def text(table: list[list[str]]) -> str:
    """Rows as ncu writes them."""
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(table)
    return out.getvalue()


def changed(table: list[list[str]], values: dict[str, str], *, row: int = 2) -> list[list[str]]:
    """The table with other texts in some columns of one row."""
    copy = [list(each) for each in table]
    for name, value in values.items():
        copy[row][copy[0].index(name)] = value
    return copy


def without(table: list[list[str]], *names: str) -> list[list[str]]:
    """The table without some columns."""
    kept = [index for index, name in enumerate(table[0]) if name not in names]
    return [[row[index] for index in kept] for row in table]


def read_figures(path: Path, **other: float | None) -> Figures:
    """The figures of a real report, some of them with another value, or (None) missing."""
    table = rows(path)
    for name, value in other.items():
        metric = FIGURES[name].metric
        table = without(table, metric) if value is None else changed(table, {metric: str(value)})
    (kernel,) = parse(text(table), "a report")
    return figures(kernel)
