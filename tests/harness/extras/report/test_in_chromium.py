"""The report in a real browser: every page, by mouse and keyboard, in both themes, on three widths."""

import re
from pathlib import Path
from typing import Final

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from harness.extras.report.gather import Report
from tests.harness.extras.report.conftest import Reader
from tests.harness.extras.report.notebook import MODEL, SHAPE
from tests.lanes import few

PROBLEM: Final = f"/{SHAPE}"
BEST: Final = f"/{SHAPE}/{MODEL}/iter002_warp_specialized"
HOSTILE: Final = f"/linear_bf16fp32_64x8192x8192/{MODEL}/iter000_hostile"
# One of each kind: what axe looks at.
KINDS: Final = (
    *("/", "/versus", PROBLEM, BEST, HOSTILE, "/linear_bf16fp32_64x8192x8192", "/no/such/page"),
    *(f"/{SHAPE}/{MODEL}/{name}" for name in ("iter004_does_not_compile", "iter006_stale", "iter008_not_measured")),
)


def rows(reader: Reader, column: int) -> list[str]:
    """One column of the first table, of the rows that are shown."""
    cells = reader.page.locator(f"main table.sortable >> nth=0 >> css=tbody tr:not([hidden]) > :nth-child({column})")
    return [text.strip() for text in cells.all_inner_texts()]


def test_every_page_is_reached_and_says_nothing(reader: Reader, report: Report) -> None:
    addresses = ["/", "/versus", *(shape.page for shape in report.shapes), *(entry.page for entry in report.entries)]
    assert sorted(reader.addresses()) == sorted(addresses)
    assert {entry.outcome for entry in report.entries} == {"keep", "discard", "failed", "unmeasured"}
    for address in addresses:  # the fixture checks what they said and asked for
        reader.open(address)
        assert reader.title
        assert reader.page.title().endswith("tilebench")
        assert reader.page.evaluate("[...document.querySelectorAll('details')].every(each => each.open = true)")


def test_every_link_leads_to_a_page(reader: Reader) -> None:
    known = set(reader.addresses())
    for address in sorted(known):
        reader.open(address)
        links = reader.page.locator("main a").evaluate_all("all => all.map(each => each.getAttribute('href'))")
        inner = {link.removeprefix("#") for link in links}
        records = {link for link in inner if link.startswith("/record/")}
        assert inner - records <= known
        for record in records:
            reader.open(record)
            assert reader.title == address.partition("@")[0].rpartition("/")[2]


def test_a_row_is_reached_by_its_record_and_by_a_click(reader: Reader) -> None:
    title = reader.page.locator("main h1")
    reader.page.get_by_role("link", name=SHAPE).first.click()
    expect(title).to_have_text(SHAPE)
    reader.page.get_by_role("link", name="iter002_warp_specialized").first.click()
    expect(title).to_have_text("iter002_warp_specialized")
    reader.open("/record/0000000000")
    assert reader.title == "No such page"


def test_a_table_sorts_by_mouse_and_keyboard(reader: Reader) -> None:
    reader.open(PROBLEM)
    heading = reader.page.get_by_role("button", name="ratio", exact=True).first
    heading.click()
    ratios = [float(text) for text in rows(reader, 3) if re.match(r"[0-9]", text)]
    assert ratios == sorted(ratios)
    assert len(ratios) > 4
    heading.focus()
    reader.page.keyboard.press("Enter")
    expect(heading.locator("xpath=..")).to_have_attribute("aria-sort", "descending")
    assert [float(text) for text in rows(reader, 3)[: len(ratios)]] == sorted(ratios, reverse=True)
    assert not any(re.match(r"[0-9]", text) for text in rows(reader, 3)[len(ratios) :]), "what has no figure is below"
    reader.page.get_by_role("button", name="iteration", exact=True).first.click()
    assert rows(reader, 2) == sorted(rows(reader, 2))


def test_the_filter_leaves_what_has_all_words(reader: Reader) -> None:
    reader.open(PROBLEM)
    everything = len(rows(reader, 2))
    reader.page.keyboard.press("/")
    reader.page.keyboard.type("SOMEBODY keep")
    assert rows(reader, 2) == ["iter001_other"]
    assert f"1 of {everything}" in reader.page.locator("output").first.inner_text()
    reader.page.keyboard.press("Control+A")
    reader.page.keyboard.press("Delete")
    assert len(rows(reader, 2)) == everything


def test_keys_go_around_the_report(reader: Reader) -> None:
    keyboard, page = reader.page.keyboard, reader.page
    reader.open(BEST)
    start = reader.title
    keyboard.press("n")
    page.wait_for_function("title => document.querySelector('main h1').innerText !== title", arg=start)
    keyboard.press("p")
    page.wait_for_function("title => document.querySelector('main h1').innerText === title", arg=start)
    keyboard.press("u")
    page.wait_for_function("title => document.querySelector('main h1').innerText === title", arg=SHAPE)
    keyboard.press("?")
    assert page.locator("dialog").is_visible()
    keyboard.press("Escape")
    assert not page.locator("dialog").is_visible()
    keyboard.press("u")
    page.wait_for_function("() => location.hash === '#/'")
    for theme in ("light", "dark", "auto"):
        keyboard.press("t")
        assert page.locator("html").get_attribute("data-theme") == theme


def test_the_skip_link_comes_first_and_keeps_the_page(reader: Reader) -> None:
    reader.open(PROBLEM)
    reader.page.reload()
    reader.page.keyboard.press("Tab")
    assert reader.page.evaluate("document.activeElement.className") == "skip"
    reader.page.keyboard.press("Enter")
    reader.page.wait_for_function("() => document.activeElement.id === 'main'")
    assert reader.title == SHAPE


def test_the_ladder_marks_each_outcome_by_its_shape(reader: Reader) -> None:
    reader.open(PROBLEM)
    marks = reader.page.locator(".plot[data-plot=ladder]").first.locator(".mark-symbol path")
    shapes = marks.evaluate_all("all => all.map(each => each.getAttribute('d').replace(/[0-9.,-]+/g, ''))")
    assert len(shapes) == 9  # six of this model and one of another were measured, two failed before
    assert len(set(shapes)) == 3


def test_the_ladder_shows_tflops_and_the_rows_near_the_baseline(reader: Reader) -> None:
    reader.open(PROBLEM)
    texts = (
        "[...document.querySelector('.plot[data-plot=ladder]').querySelectorAll('text')].map(each => each.textContent)"
    )
    assert {"ratio to the baseline", "0.5"} <= set(reader.page.evaluate(texts))
    reader.page.get_by_label("Figure").first.select_option("TFLOPS")
    reader.page.get_by_label("Iterations").first.select_option("top")
    reader.page.wait_for_function(f"() => {texts}.includes('TFLOPS') && {texts}.includes('800')")
    reader.page.wait_for_function(f"() => !{texts}.includes('400')")


def test_a_mark_leads_to_its_iteration(reader: Reader) -> None:
    reader.open(PROBLEM)
    best = reader.page.locator(".plot[data-plot=ladder] [aria-label*=iter002_warp_specialized]").first
    best.hover()
    assert "1.03" in reader.page.locator(".vg-tooltip").inner_text()
    best.click()
    reader.page.wait_for_function("address => location.hash.slice(1) === address", arg=BEST)


def test_an_iteration_shows_what_is_behind_it(reader: Reader) -> None:
    reader.open(BEST)
    text = reader.page.locator("main").inner_text()
    for part in (
        *("tilebench reproduce ", "wgmma_in_flight", "HGMMA.64x256x16", "registers", "compute", "tensor pipe"),
        *("SM clock", "power", "torch", "driver", "bit for bit", "main_kernel", "Earlier records", "num_stages=2"),
    ):
        assert part in text, part
    chip = reader.page.locator("[data-plot=chip] svg")
    expect(chip.locator("path[stroke-dasharray='6,4']")).to_have_count(1)
    expect(chip).to_contain_text("power, W (dashed)")
    expect(chip).to_contain_text("1,900")
    reader.page.get_by_text("The blocks as figures").click()
    expect(reader.page.locator("details[data-fill=blocks] tbody tr")).to_have_count(48)
    reader.page.get_by_text(re.compile("[0-9]+ metrics of")).click()
    expect(reader.page.locator("details[data-fill=metrics] tbody")).to_contain_text("gpu__time_duration.sum")


def test_nothing_hostile_runs_or_loads(reader: Reader) -> None:
    for address in (each for each in reader.addresses() if "hostile" in each or "linear" in each):
        reader.open(address)
        for details in reader.page.locator("details").all():
            details.locator("summary").click()
        assert reader.page.evaluate("window.owned") is None
        assert reader.page.locator("main img, main svg[onload], main script, main iframe").count() == 0
        assert "<img src=x" in reader.page.locator("main").inner_text()
    reader.open("/")
    assert "49" not in reader.page.locator("main h2").all_inner_texts()


def test_the_policy_stops_what_escaping_might_let_through(browser: Browser, file: Path) -> None:
    context = browser.new_context()
    reader = Reader.of(context.new_page(), file)
    reader.open()
    reader.page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.owned = 1";
            document.body.append(script);
            const image = "<img src='https://example.invalid/x.png' onerror='window.owned = 2'>";
            document.body.insertAdjacentHTML("beforeend", image);
        }"""
    )
    reader.page.wait_for_timeout(200)
    assert reader.page.evaluate("window.owned") is None
    assert any("Content Security Policy" in said for said in reader.said)
    context.close()


@pytest.mark.parametrize("theme", few(["light", "dark"], "dark"))
def test_axe_finds_nothing_serious(reader: Reader, theme: str) -> None:
    reader.page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    found = []
    for kind in (*KINDS, "?"):
        if kind == "?":
            reader.open("/")
            reader.page.keyboard.press("?")
        else:
            reader.open(kind)
            reader.page.evaluate("document.querySelectorAll('main details').forEach(each => { each.open = true })")
        for violation in Axe().run(reader.page).response["violations"]:
            nodes = [node["html"][:200] for node in violation["nodes"][:2]]
            found.append((kind, violation["impact"], violation["id"], nodes))
    assert [each for each in found if each[1] in ("serious", "critical")] == []
    assert found == []


@pytest.mark.parametrize("width", [390, 900, 1440])
def test_no_page_is_wider_than_the_screen(reader: Reader, width: int) -> None:
    reader.page.set_viewport_size({"width": width, "height": 844})
    for address in KINDS:
        reader.open(address)
        assert reader.page.evaluate("document.documentElement.scrollWidth") <= width, address
        for plot in reader.page.locator(".plot svg").all():
            box = plot.bounding_box()
            assert box is not None
            assert box["width"] <= width


def test_on_paper_there_are_no_tools_and_all_figures(reader: Reader) -> None:
    reader.open(BEST)
    reader.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    reader.page.emulate_media(media="print", color_scheme="dark")
    reader.page.set_viewport_size({"width": 700, "height": 1000})  # A4 between its margins
    assert reader.page.evaluate("document.documentElement.scrollWidth") <= 700
    assert not reader.page.locator("header").is_visible()
    assert not reader.page.locator(".copy").first.is_visible()
    assert reader.page.locator("details[data-fill=blocks] tbody tr").count() == 48
    assert reader.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert reader.page.pdf().startswith(b"%PDF")


def test_the_overview_can_be_read_without_scripts(browser: Browser, file: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    text = page.locator("main").inner_text()
    assert "need JavaScript" in text
    assert SHAPE in text
    assert "1.03" in text
    context.close()
