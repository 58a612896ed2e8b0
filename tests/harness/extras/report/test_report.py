"""What a report gathers, decides nothing of, and writes: without a browser."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import msgspec
import pytest
import vl_convert

from harness.boards import leaderboard
from harness.boards.board import BoardRow, newest
from harness.catalog import gpus
from harness.catalog.tree import Selection, Tree
from harness.cli.app import carry_out
from harness.errors import ExitCode, UsageError
from harness.extras.report import figures, page, palette, pictures, plots, rows
from harness.extras.report.difference import lines, settings
from harness.extras.report.gather import Report, ReportEntry, Shape, gather, tally
from harness.extras.report.roofline import DATASHEET, REACHED, roofline
from harness.records.base import RowKind
from harness.records.results import BlockPair
from tests.harness.checkout import ROOT
from tests.harness.envelopes import answer
from tests.harness.extras.report.notebook import (
    GPU,
    HOSTILE,
    MODEL,
    SHAPE,
    Notebook,
    every_state,
    measured,
    measurement,
)


class Tags(HTMLParser):
    """Every tag with its attributes, and the text of the scripts; templates are parsed like the rest."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: str | None = None
        self.data = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))
        self.open = dict(attributes).get("id") if tag == "script" else None

    def handle_data(self, data: str) -> None:
        if self.open == "data":
            self.data += data


@pytest.fixture(scope="module")
def html(report: Report) -> Tags:
    return Tags(page.render(report))


def entry(report: Report, name: str) -> Any:
    return next(each for each in report.entries if each.page.endswith(name))


def led_by(shape: Shape, best: ReportEntry, **figures: float) -> Shape:
    """The problem with this row alone, and other figures in it."""
    row = msgspec.structs.replace(best.row, rank=1, **figures)
    return replace(shape, sheets=(replace(shape.sheets[0], entries=(replace(best, row=row),)),))


def test_it_decides_nothing_the_leaderboard_does(tmp_path: Path) -> None:
    notebook = every_state(tmp_path)
    boards, complaints = leaderboard.boards(notebook.tree, GPU, Selection())
    report = gather(notebook.tree, GPU, Selection())
    assert [entry.row for entry in report.entries] == [row for board in boards for row in board.rows]
    (complaint,) = complaints
    assert report.complaints == (complaint.removeprefix(f"{tmp_path}/"),)
    assert str(tmp_path) not in page.render(report), "a report travels, and says nothing of the disk it is from"


def test_who_leads_counts_where_it_is_a_kernel_and_ahead_for_sure(report: Report) -> None:
    (shape,) = [each for each in report.shapes if each.problem.shape_key == SHAPE]

    def ahead(name: str, ratio_low: float) -> int:
        return replace(report, shapes=(led_by(shape, entry(report, name), ratio_low=ratio_low),)).ahead

    kernel, baseline = "iter002_warp_specialized", "iter000_torch_matmul"
    assert (ahead(kernel, 1.01), ahead(kernel, 0.99), ahead(baseline, 1.01)) == (1, 0, 0)


def test_both_regimes_stand_side_by_side_and_another_leader_is_named(report: Report) -> None:
    (shape,) = [each for each in report.shapes if each.problem.shape_key == SHAPE]
    assert not report.at_limit and "At the power limit" not in page.render(report)

    def alone(best: ReportEntry, rank: int, ratio: float) -> ReportEntry:
        figures = {
            "sustained_ratio": ratio,
            "sustained_ratio_low": ratio - 0.003,
            "sustained_ratio_high": ratio + 0.003,
        }
        more = {"sustained_tflops": 671.0, "sustained_sm_mhz": 1425.0, "sustained_power_w": 698.0, "pj_per_flop": 1.04}
        return replace(best, row=msgspec.structs.replace(best.row, sustained_rank=rank, **figures, **more))

    sheet = shape.sheets[0]
    first, second = alone(sheet.entries[0], 2, 1.021), alone(sheet.entries[1], 1, 1.039)
    board = replace(sheet.board, rows=(first.row, second.row))
    changed = replace(shape, sheets=(replace(sheet, board=board, entries=(first, second)),))
    told = page.render(replace(report, shapes=(changed,)))
    assert changed.sustained_leader == second
    assert f"at the power limit {second.row.iteration} does, with 1.0390" in " ".join(told.split())
    for part in ("leads at the power limit", "1.0210", "1425", "698", "1.04", "J per launch"):
        assert part in told


def at_limit(report: Report, ours: float, theirs: float) -> Report:
    """The report with ratios at the power limit, of the leader and its only opponent."""
    (shape,) = report.shapes
    (sheet,) = shape.sheets

    def there(row: BoardRow, ratio: float, rank: int | None) -> BoardRow:
        bounds = {"sustained_ratio_low": ratio - 0.01, "sustained_ratio_high": ratio + 0.01}
        return msgspec.structs.replace(
            row, sustained_ratio=ratio, sustained_rank=rank, sustained_tflops=600.0, **bounds
        )

    (leader,), (opponent,) = sheet.board.rows, sheet.board.opponents
    board = replace(sheet.board, rows=(there(leader, ours, 1),), opponents=(there(opponent, theirs, None),))
    return replace(report, shapes=(replace(shape, sheets=(replace(sheet, board=board),)),))


def test_opponents_are_shown_and_where_one_leads_it_is_said(report: Report) -> None:
    (shape,) = [each for each in report.shapes if each.problem.shape_key == SHAPE]
    assert not report.opposed and "strongest opponent" not in page.render(report)
    leader = shape.sheets[0].board.rows[0]
    bounds = {"ratio_low": 1.09, "ratio_high": 1.11, "sustained_ratio_low": None}
    other = msgspec.structs.replace(leader, iteration="rival", kind=RowKind.OPPONENT, rank=None, ratio=1.1, **bounds)

    def beside(ratio: float, low: float, other: BoardRow = other) -> Report:
        row = msgspec.structs.replace(leader, ratio=ratio, ratio_low=low, ratio_high=ratio + 0.01)
        board = replace(shape.sheets[0].board, rows=(row,), opponents=(other,))
        return replace(report, shapes=(replace(shape, sheets=(replace(shape.sheets[0], board=board),)),))

    behind = beside(1.03, 1.02)
    told = " ".join(page.render(behind).split())
    ((where, found, words),) = behind.opponents_ahead
    assert (where.problem.shape_key, found.opponent, words) == (SHAPE, other, "at equal clocks")
    for part in ("Where an opponent leads", "<b>rival</b> is faster at equal clocks", "[1.0900, 1.1100]", "~0.936"):
        assert part in told
    assert [row["opponent"] for row in rows.forest(behind)] == ["rival"]
    (matmul,) = behind.operators
    assert matmul.vs_best == pytest.approx(1.03 / 1.1)
    ahead = beside(1.3, 1.29)
    assert "Where an opponent leads" not in page.render(ahead)
    assert [words for *_, words in at_limit(ahead, 1.02, 1.10).opponents_ahead] == ["at the power limit"]
    assert "<b>rival</b> is faster at the power limit" in " ".join(page.render(at_limit(ahead, 1.02, 1.10)).split())
    assert not at_limit(ahead, 1.10, 1.02).opponents_ahead
    assert ahead.operators[0].vs_best == pytest.approx(1.3 / 1.1)
    for far in (0.6, 25.0):
        out = msgspec.structs.replace(other, ratio=far)
        assert [row["opponent"] for row in rows.forest(beside(1.3, 1.29, out))] == [None], "too far out for the axis"


def test_two_environments_have_a_page_of_what_was_measured(report: Report) -> None:
    (found,) = report.upgrades
    assert found.title == "TileLang 0.1.14 > 0.1.15"
    assert [(each.iteration, each.verdict.value, each.identical) for each in found.rows] == [
        ("iter002_warp_specialized", "slower", False),
        ("iter006_stale", "same", True),
        ("iter007_verified_only", "undecided", False),
    ]
    text = page.render(report)
    assert 'data-page="/versus"' in text
    assert "1 with the same code in both" in text
    assert 'data-page="/versus"' not in page.render(replace(report, upgrades=()))


def test_the_counts_are_of_the_iterations(report: Report) -> None:
    counts = tally(report.newest)
    iterations = {(each.row.problem, each.row.model, each.row.iteration) for each in report.entries}
    assert counts["all"] == len(report.newest) == len(iterations) == len(report.entries) - 1
    assert counts["all"] == sum(counts[outcome] for outcome in ("keep", "discard", "failed", "unmeasured"))
    assert counts["failed"] == 4
    stale = {each.row.iteration: each.row.stale for each in report.newest if each.row.stale}
    assert counts["stale"] == len(stale)
    assert stale == {"iter006_stale": ("source",), "iter000_hostile": ("judge",), "iter001_hostile": ("judge",)}
    assert counts["unstable"] == 1
    assert counts["unmeasured"] == 3
    assert [count for _, count in report.environments] == [10, 2, 1]


def test_a_row_of_another_environment_has_a_page_of_its_own(report: Report) -> None:
    twice = [each for each in report.entries if each.row.iteration == "iter002_warp_specialized"]
    assert len({each.page for each in twice}) == 2
    assert twice[1].page == f"{twice[0].page}@{twice[1].row.record}"
    assert len(twice[0].earlier) == 2


def test_what_is_behind_a_row(report: Report) -> None:
    best = entry(report, "iter002_warp_specialized")
    assert best.record.id == best.row.record
    assert best.profile is not None
    assert best.build.kernels[0].name == "main_kernel"
    assert {each.mark for each in best.lines} == {" ", "+", "-"}
    assert best.parent_page == f"/{SHAPE}/{MODEL}/iter001_stock"
    assert entry(report, "iter003_unstable").profile is None, "of another source"


def test_the_staircase_follows_the_decisions(report: Report) -> None:
    shape = next(each for each in report.shapes if each.problem.shape_key == SHAPE)
    stairs = [each for each in rows.ladder(shape, shape.sheets[0]) if each["model"] == MODEL]
    assert [each["number"] for each in stairs if each["outcome"] == "keep"] == [0, 2]
    assert stairs[0]["ratio_best"] == stairs[1]["ratio_best"] < stairs[2]["ratio_best"] == stairs[-1]["ratio_best"]
    assert all(each.get("ratio") is None for each in stairs if each["outcome"] == "failed")
    assert all(each["rate_low"] < each["rate"] < each["rate_high"] for each in stairs if each.get("ratio"))


def test_the_ceilings_say_where_they_are_from(report: Report) -> None:
    shape = next(each for each in report.shapes if each.problem.shape_key == SHAPE)
    found = roofline(report, shape, shape.sheets[0])
    assert found is not None
    datasheet, reached = found.roofs  # no ceiling is measured here
    assert (datasheet.kind, datasheet.tflops, datasheet.gbs) == (DATASHEET, 989, 4800)
    assert reached.kind == REACHED
    assert reached.compute_by == f"{SHAPE} iter002_warp_specialized"
    assert reached.tflops == max(each.row.tflops or 0 for each in shape.entries)
    assert datasheet.at(datasheet.ridge) == pytest.approx(989)
    assert datasheet.at(datasheet.ridge / 2) == pytest.approx(989 / 2)
    assert [point.counted for point in found.points].count(True) == 1
    assert roofline(replace(report, gpu=gpus.find("cpu")), shape, shape.sheets[0]) is None


def test_hostile_text_makes_no_tag_and_no_attribute(html: Tags) -> None:
    tags = {tag for tag, _ in html.found}
    assert not tags & {"img", "iframe", "object", "embed", "link", "base", "b<"}
    scripts = [attributes for tag, attributes in html.found if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "data"}, {}, {}]
    assert not [name for _, attributes in html.found for name in attributes if name.startswith("on")]
    links = [attributes["href"] or "" for tag, attributes in html.found if tag == "a"]
    assert all(link.startswith("#") for link in links)
    assert not [name for tag, attributes in html.found for name in attributes if name in ("src", "style", "srcset")]


def test_a_failure_and_an_attempt_show_their_traceback(report: Report) -> None:
    shown = '<pre class="notice" tabindex="0" role="region" aria-label="Traceback">File &#34;kernels/gemm/kernel.py'
    assert page.render(report).count(shown) == 2


def test_hostile_text_is_there_to_be_read(html: Tags, report: Report) -> None:
    text = page.render(report)
    assert "&lt;img src=x onerror=&#34;window.owned = 2&#34;&gt;" in text
    assert "{{ 7 * 7 }}" in text
    assert "\u202e" not in text, "a mark that turns the direction of text is written out"
    assert "\\u202eevil" in text
    ladder = json.loads(html.data)["ladders"]["/linear_bf16fp32_64x8192x8192#0"]
    assert ladder[0]["idea"] == figures.tame(HOSTILE)


def test_embedded_json_stays_within_its_script() -> None:
    document = {"a": ["</script>", "<!--<script>", "]]>", "\u2028\u2029", "&lt;", HOSTILE]}
    text = str(page.embedded(document))
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == document


def test_the_policy_names_the_scripts_and_nothing_else(html: Tags) -> None:
    policy = next(
        each["content"] or "" for _, each in html.found if each.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert len(re.findall("'sha256-", policy)) == 3


def test_a_ratio_far_out_stands_beyond_the_axis(report: Report) -> None:
    def beyond(*ratios: float) -> list[bool]:
        (shape,) = [each for each in report.shapes if each.problem.shape_key == SHAPE]
        best = entry(report, "iter002_warp_specialized")
        shapes = tuple(led_by(shape, best, ratio=ratio) for ratio in ratios)
        return [each["beyond"] for each in rows.forest(replace(report, shapes=shapes))]

    assert beyond(1.2, 1.1, 1.0) == [False, False, False]
    assert beyond(3.4, 1.2, 1.1, 1.0) == [True, False, False, False]
    assert rows.forest(replace(report, shapes=())) == []
    marks = json.dumps(plots.forest([{"problem": SHAPE, "beyond": True}], wide=True))
    assert "width - 110" in marks, "the axis ends before the break"
    assert plots._BREAK in marks
    assert plots._BREAK not in json.dumps(plots.forest([{"problem": SHAPE, "beyond": False}], wide=True))


def test_means_by_operator_are_of_each_problems_best(report: Report) -> None:
    linear, matmul = report.operators
    assert (linear.operator, linear.problems, linear.ahead) == ("linear", 1, 0), "iter000 is the library"
    assert linear.mean == pytest.approx(linear.low) == pytest.approx(1.5, rel=0.01)
    assert (matmul.operator, matmul.problems) == ("matmul", 1), "a problem without a measurement has no ratio"
    (shape,) = [each for each in report.shapes if each.problem.shape_key == SHAPE]
    best = entry(report, "iter002_warp_specialized")
    shapes = tuple(led_by(shape, best, ratio=ratio) for ratio in (1.0, 4.0))
    (mean,) = replace(report, shapes=shapes).operators
    assert mean.mean == pytest.approx(2 * mean.low)
    assert mean.high == pytest.approx(4 * mean.low)


def test_a_memory_bound_problem_shows_bandwidth_and_no_flops(tmp_path: Path) -> None:
    notebook = Notebook.create(tmp_path)
    moved = msgspec.structs.replace(measurement(1.0), tflops=0.0, baseline_tflops=0.0)
    notebook.record(notebook.write(0, "torch_copy", "contiguous_f32fp32_8192x8192"), measurement=moved)
    report = gather(notebook.tree, GPU, Selection())
    (shape,) = report.shapes
    assert shape.unit == "GB/s"
    assert shape.throughput(0.1) == pytest.approx(2 * 8192 * 8192 * 4 / 1e5)
    text = page.render(report).partition("<script")[0]
    assert "FLOP per byte" not in text
    assert re.search(r"[0-9] TFLOPS", text) is None
    assert re.search(r"<option value=.GB/s.>", text)


def test_a_copy_that_only_shows_how_fast_memory_is_counts_as_no_problem(tmp_path: Path) -> None:
    notebook = Notebook.create(tmp_path)
    for key in ("contiguous_f32fp32_8192x8192", "copy_f32fp32_65536x1024"):
        notebook.record(notebook.write(0, "torch_copy", key), measurement=measurement(1.0))
    report = gather(notebook.tree, GPU, Selection())
    assert [str(shape.problem) for shape in report.best_first] == ["contiguous_f32fp32_8192x8192"]
    assert [str(shape.problem) for shape in report.copies] == ["copy_f32fp32_65536x1024"]
    assert "1 problem, 2 iterations" in page.render(report)


def test_an_error_that_is_not_finite_is_the_worst(tmp_path: Path) -> None:
    notebook = Notebook.create(tmp_path)
    trials = measured().verification
    broken = msgspec.structs.replace(trials[0], max_abs_err=None)
    notebook.failure(notebook.write(1, "nan"), "not finite", verification=(*trials, broken))
    text = page.render(gather(notebook.tree, GPU, Selection()))
    assert '<td class="n" data-value="Infinity">not finite</td>' in text


def test_odd_figures_are_drawn_or_left_out(tmp_path: Path) -> None:
    notebook = Notebook.create(tmp_path)
    nothing = {
        "time_ms": 0.0,
        "tflops": 0.0,
        "baseline_ms": 0.0,
        "baseline_tflops": 0.0,
        "blocks": (BlockPair(0, 0.0, 0.0),),
    }
    odd = msgspec.structs.replace(measurement(1.0), **nothing)
    path = notebook.write(1, "odd")
    config = (
        "a=" + "9" * 5000 + ", b=" + "[" * 500 + "]" * 500 + ", c=" + "-" * 3000 + "1, d=0x" + "f" * 9000 + ", **{}"
    )
    notebook.record(path, measurement=odd, verification=(), build=None, config=config)
    assert "iter001_odd" in page.render(gather(notebook.tree, GPU, Selection()))


def test_every_plot_compiles_without_a_warning(capfd: pytest.CaptureFixture[str]) -> None:
    specs = {
        **{
            f"{wide} {mark}": plots.forest([{"problem": SHAPE, **mark}], wide=wide)
            for wide in (False, True)
            for mark in ({"beyond": False}, {"beyond": True}, {"beyond": False, "opponent": "flash_attention_3"})
        },
        "blocks": plots.blocks(),
        "roofline": plots.roofline(),
        **{figure: plots.ladder(figure) for figure in ("ratio", "TFLOPS", "GB/s")},
    }
    for name, spec in specs.items():
        given = {**spec, "datasets": {"rows": [], "baseline": [], "roofs": []}}
        assert vl_convert.vegalite_to_vega(given)["marks"], name
    assert capfd.readouterr().err == ""


def test_colours_can_be_told_from_what_they_lie_on() -> None:
    """WCAG 2.2, 1.4.3 and 1.4.11: 4.5 for text, 3 for marks; all of these are used for text."""
    for theme in (0, 1):
        for name in ("ink", "soft", "accent", "good", "bad", "warn"):
            for ground in ("paper", "raised"):
                ratio = contrast(palette.PALETTE[name][theme], palette.PALETTE[ground][theme])
                assert ratio >= 4.5, (name, ground, theme, ratio)
        for ground in ("added", "removed"):
            assert contrast(palette.PALETTE["ink"][theme], palette.PALETTE[ground][theme]) >= 4.5


def contrast(one: str, other: str) -> float:
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    """WCAG 2.2, relative luminance."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_a_difference_keeps_the_whole_source() -> None:
    found = lines("a\nb\nd", "a\nc\nd\ne")
    assert [each.mark + each.text for each in found] == [" a", "-c", "+b", " d", "-e"]
    assert all(each.mark == " " for each in lines("a\nb", None))


def test_settings_say_what_changed() -> None:
    found = {each.name: each for each in settings("a=1, b='x', c=3", "a=1, b='y', d=4")}
    assert not found["a"].changed
    assert (found["b"].value, found["b"].before, found["b"].changed) == ("'x'", "'y'", True)
    assert found["c"].before is None
    assert found["d"].value is None
    assert not any(each.changed for each in settings("a=1", None))


@pytest.mark.parametrize(
    ("value", "written"),
    [(None, "\N{EN DASH}"), (820.84, "820.8"), (0.0055, "0.0055"), (123456.0, "123,456"), (0, "0")],
)
def test_numbers_are_written_for_people(value: float | None, written: str) -> None:
    assert figures.number(value) == written


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """The verb, by the real command line: its exit code, and what it said on both streams."""
    code = carry_out(["report", *arguments])
    said = capsys.readouterr()
    return int(code), said.out, said.err


def test_the_verb_writes_the_file_and_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = every_state(tmp_path).tree
    monkeypatch.setenv("TILEBENCH_ROOT", str(tree.root))
    code, out, err = told(capsys, "--gpu", GPU)
    assert (code, out.startswith("tuning/h200/report.html, ")) == (ExitCode.PASSED, True)
    assert "3 problems, 14 iterations" in out  # one is recorded in two environments
    assert "torn last line" in err
    code, out, _ = told(
        capsys, "--gpu", GPU, "--shape", SHAPE, "--json", "--output", str(tmp_path / "deep/er/page.html")
    )
    document = answer(out)
    assert (code, document["problems"]) == (ExitCode.PASSED, 1)
    assert (tmp_path / "deep/er/page.html").stat().st_size == document["bytes"]
    assert list((tmp_path / "deep/er").iterdir()) == [tmp_path / "deep/er/page.html"]


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("--gpu", "h100"), ExitCode.USAGE, "no iteration under tuning/h100/ yet"),
        (("--gpu", "h300"), ExitCode.USAGE, "unknown GPU key 'h300'"),
        (("--gpu", GPU, "--beside", "h100"), ExitCode.USAGE, "no iteration under tuning/h100/ to show beside"),
        (("--gpu", GPU, "--beside", GPU), ExitCode.USAGE, "is the page's own GPU"),
        (("--gpu", GPU, "--output", "/proc/none/report.html"), ExitCode.INFRASTRUCTURE, "/proc/none"),
    ],
)
def test_what_cannot_be_written_is_one_line(
    arguments: tuple[str, ...],
    code: int,
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    notebook = Notebook.create(tmp_path)
    notebook.record(notebook.write(1, "idea"))
    monkeypatch.setenv("TILEBENCH_ROOT", str(tmp_path))
    found, out, err = told(capsys, *arguments)
    assert (found, out, err.count("\n")) == (code, "", 1)
    assert complaint in err


@pytest.mark.slow
def test_the_pictures_of_the_readme_show_what_is_recorded(tmp_path: Path) -> None:
    """Where this fails after new records: tilebench report --gpu h200 --pictures docs/pictures."""
    report = gather(Tree(ROOT), GPU, Selection())
    for drawn in pictures.write(report, tmp_path):
        kept = ROOT / "docs" / "pictures" / drawn.name
        assert texts(kept.read_text()) == texts(drawn.read_text()), kept


def texts(svg: str) -> list[str]:
    assert "var(" not in svg
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


@pytest.mark.slow
def test_another_gpu_stands_beside(tmp_path: Path) -> None:
    """The leaders of the H100 beside those of the H200, where both have measured."""
    tree = Tree(ROOT)
    report = gather(tree, "h200", Selection(), beside="h100")
    boards, _ = leaderboard.boards(tree, "h100", Selection())
    first = newest(boards)
    there = {name: board.leader for name, board in first.items() if board.leader}
    assert {name: row.record for name, row in report.leaders_beside.items()} == {n: r.record for n, r in there.items()}
    html = page.render(report)
    rows = [shape for shape in report.shapes if shape.best and shape.problem.shape_key in there]
    both = [shape for shape in rows if first[shape.problem.shape_key].competes]
    assert len(both) > 10
    for shape in both:
        row = there[shape.problem.shape_key]
        found = re.search(rf'<a href="#{shape.page}".*?</tr>', html, re.DOTALL)
        assert found is not None
        assert f"{row.ratio:.4f}" in found[0]
        assert figures.interval((row.ratio_low, row.ratio_high)) in found[0]
    (attention,) = (each for each in report.operators if each.operator == "attention")
    ratios = [row.ratio for name, row in there.items() if name.startswith("attention_") and row.ratio]
    assert attention.beside == pytest.approx(geometric_mean(ratios))
    alone = gather(tree, "h200", Selection())
    assert "on h100" in html and "on h100" not in page.render(alone)
    assert all(each.beside is None for each in alone.operators)
    with pytest.raises(UsageError, match="unknown GPU key 'h10'.*did you mean h100"):
        gather(tree, "h200", Selection(), beside="h10")


def test_a_cpu_has_gflops_and_nothing_unstable(report: Report) -> None:
    shape = replace(report.shapes[0], gpu=gpus.find("cpu"))
    assert shape.unit == "GFLOPS"
    assert shape.throughput(1.0) == pytest.approx(shape.problem.flops / 1e6)
    unstable = [each for each in report.newest if each.row.unstable]
    assert len(unstable) == 1
    on_cpu = [replace(each, row=msgspec.structs.replace(each.row, gpu="cpu")) for each in unstable]
    assert tally(on_cpu)["unstable"] == 0


def test_the_largest_ratio_is_the_first_of_the_plot_even_beyond_the_axis() -> None:
    """The layer that draws first leaves it out, and must not decide the order."""
    marks = rows.forest(gather(Tree(ROOT), "h200", Selection()))
    assert marks[0]["beyond"]
    for wide in (True, False):
        svg = vl_convert.vegalite_to_svg({**plots.forest(marks, wide=wide), "width": 800, "datasets": {"rows": marks}})
        heights = [
            float(match[1])
            for name in (mark["problem"] for mark in marks)
            if (match := re.search(rf'translate\([0-9.]+,([0-9.]+)\)"[^>]*>{name}</text>', svg))
        ]
        assert len(heights) == len(marks)
        assert heights == sorted(heights)


def test_a_shape_key_breaks_between_its_parts() -> None:
    broken = figures.breakable("matmul_bf16fp32_16x1024x8")
    assert broken == "matmul_<wbr>bf16fp32_<wbr>16x<wbr>1024x<wbr>8"
    assert figures.breakable("<b>_1x1") == "&lt;b&gt;_<wbr>1x<wbr>1"
