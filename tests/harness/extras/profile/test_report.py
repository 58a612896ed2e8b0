"""The parser, on reports of an H200, and on what is torn, foreign or of other units."""

from pathlib import Path

import pytest

from harness.errors import InfrastructureError
from harness.extras.profile.figures import FIGURES, figures
from harness.extras.profile.report import base_unit, parse
from harness.records.profiles import Metric
from tests.harness.extras.profile.reports import PERSISTENT, STOCK, changed, rows, text, without


@pytest.mark.parametrize(
    ("path", "duration_us", "tensor_pct", "dram_read_bytes"),
    [(STOCK, 200.512, 77.437603, 184218112.0), (PERSISTENT, 175.328, 91.288421, 144303104.0)],
)
def test_a_report_of_an_h200(path: Path, duration_us: float, tensor_pct: float, dram_read_bytes: float) -> None:
    (kernel,) = parse(path.read_text(), path.name)
    assert kernel.name == "main_kernel"
    found = figures(kernel)
    assert found.duration_us == pytest.approx(duration_us)
    assert found.get("tensor_pct") == tensor_pct
    assert found.get("dram_read_bytes") == pytest.approx(dram_read_bytes)
    assert set(found.values) == set(FIGURES), "each figure is there, in the unit that the table says"
    assert found.stalls[0][0] == "barrier"
    assert sum(share for _, share in found.stalls) == pytest.approx(100)


def test_the_whole_report_has_all_its_columns() -> None:
    (kernel,) = parse(PERSISTENT.read_text(), PERSISTENT.name)
    assert len(kernel.cells) == 2238
    # WGMMA is counted by type, and as much of it as the problem has; the pipe that its name suggests shows 1.4%.
    assert kernel.metric("sm__ops_path_tensor_src_bf16_dst_fp32.sum") == Metric(2 * 4096**3, "")
    hmma = kernel.metric("sm__inst_executed_pipe_tensor_op_hmma.avg.pct_of_peak_sustained_elapsed")
    assert hmma is not None and hmma.value < 2


@pytest.mark.parametrize(
    ("unit", "base", "factor"),
    [
        ("us", "s", 1e-6),
        ("msecond", "s", 1e-3),
        ("s", "s", 1.0),
        ("Ghz", "hz", 1e9),
        ("Mbyte", "byte", 1e6),
        ("Kbyte/block", "byte/block", 1e3),
        ("Tbyte/s", "byte/s", 1e12),
        ("sector/ns", "sector/s", 1e9),
        ("%", "%", 1.0),
        ("%/register", "%/register", 1.0),
        ("register/thread", "register/thread", 1.0),
        ("", "", 1.0),
    ],
)
def test_units(unit: str, base: str, factor: float) -> None:
    found, by = base_unit(unit)
    assert found == base
    assert by == pytest.approx(factor)


def test_other_units_rows_give_the_same_figures() -> None:
    """ncu chooses prefixes by size, and ``--print-units base`` has none."""
    table = rows(STOCK)
    names = ["gpu__time_duration.sum", "dram__bytes_read.sum", "launch__shared_mem_per_block_dynamic"]
    other = changed(table, dict(zip(names, ["ns", "byte", "byte/block"], strict=True)), row=1)
    other = changed(other, dict(zip(names, ["200,512", "184,218,112", "196,608"], strict=True)))
    mine, same = (figures(parse(text(each), "a report")[0]) for each in (table, other))
    for name in ("duration_s", "dram_read_bytes", "shared_dynamic_bytes"):
        assert mine.get(name) == pytest.approx(same.get(name))


def test_a_unit_that_is_another_quantity_is_an_error() -> None:
    table = changed(rows(STOCK), {"gpu__time_duration.sum": "cycle"}, row=1)
    (kernel,) = parse(text(table), "ncu_iter001.csv")
    with pytest.raises(
        InfrastructureError, match=r"^ncu_iter001.csv:3: gpu__time_duration.sum is in 'cycle', where s was exp"
    ):
        figures(kernel)


def test_several_kernels_in_their_order() -> None:
    split, reduce = (changed(rows(STOCK), {"Kernel Name": name})[2] for name in ("main_kernel", "main_kernel_1"))
    kernels = parse(text([*rows(STOCK)[:2], split, reduce]), "a report")
    assert [kernel.name for kernel in kernels] == ["main_kernel", "main_kernel_1"]
    assert [kernel.where for kernel in kernels] == ["a report:3", "a report:4"]


def test_what_ncu_says_of_itself_is_no_row() -> None:
    said = "==PROF== Connected to process 541 (/usr/bin/python3.12)\n==WARNING== a remark, with a comma\n"
    assert [kernel.name for kernel in parse(said + text(rows(STOCK)), "a report")] == ["main_kernel"]


@pytest.mark.parametrize("absent", ["no data", "", "nan", "n/a"])
def test_a_metric_without_a_number_is_missing(absent: str) -> None:
    table = changed(rows(STOCK), {"lts__t_sector_hit_rate.pct": absent})
    found = figures(parse(text(table), "a report")[0])
    assert found.get("l2_hit_pct") is None
    assert "lts__t_sector_hit_rate.pct" not in found.metrics


def test_missing_columns_leave_the_others() -> None:
    found = figures(parse(text(without(rows(STOCK), "lts__throughput.avg.pct_of_peak_sustained_elapsed")), "r")[0])
    assert found.get("l2_pct") is None and found.get("dram_pct") is not None


def test_without_a_duration_nothing_was_counted() -> None:
    (kernel,) = parse(text(without(rows(STOCK), "gpu__time_duration.sum")), "ncu_iter001.csv")
    with pytest.raises(InfrastructureError, match=r"^ncu_iter001.csv:3: no gpu__time_duration.sum"):
        figures(kernel)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "r.csv: the report is empty"),
        ("\n\n", "r.csv: the report is empty"),
        ("==WARNING== No kernels were profiled.\n", "r.csv: the report is empty"),
        ("a,b\n1,2\n", "r.csv:1: no column 'Kernel Name': not a report of --csv --page raw"),
        ('"ID","Kernel Name"\n', "r.csv:1: the report ends after its header"),
        ('"ID","Kernel Name"\n"",""\n', "r.csv: the report holds no kernel"),
        ('"ID","Kernel Name"\n"0","main_kernel"\n', "r.csv:2: a row of units was expected here, after the header"),
        ('"ID","Kernel Name","gpu__time_duration.sum"\n"","","us"\n"0","main', "r.csv:3: the file is cut, or no CSV"),
        ('"ID","Kernel Name","x"\n"","","us"\n"0","main_kernel"\n', "r.csv:3: 2 of 3 columns: the file is cut"),
        ('"ID","Kernel Name","x"\n"",""\n', "r.csv:2: 2 of 3 columns: the file is cut"),
    ],
)
def test_what_is_no_report(content: str, complaint: str) -> None:
    with pytest.raises(InfrastructureError) as error:
        parse(content, "r.csv")
    assert str(error.value).startswith(complaint)


def test_a_report_cut_anywhere_is_refused() -> None:
    """At whatever byte: no figure of a torn file is believed."""
    whole = STOCK.read_text()
    for end in range(0, len(whole) - 1, 97):
        with pytest.raises(InfrastructureError, match=r"^cut\.csv"):
            parse(whole[:end], "cut.csv")
