"""A report of every state, and Debian's chromium to read it with."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from harness.catalog.tree import Selection
from harness.extras.report import page as html
from harness.extras.report.gather import Report, gather
from tests.harness.extras.report.notebook import GPU, every_state


@dataclass
class Reader:
    """A page of the browser that holds a report, and all that it said or asked for."""

    page: Page
    file: Path
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, page: Page, file: Path) -> "Reader":
        reader = cls(page, file)
        page.set_default_timeout(10_000)
        page.on("console", lambda message: reader.said.append(message.text))
        page.on("pageerror", lambda error: reader.said.append(str(error)))
        page.on("dialog", lambda dialog: reader.said.append(dialog.message))
        page.on("request", lambda request: reader.asked.append(request.url))
        return reader

    def open(self, address: str = "/") -> None:
        """Go to a page of the report and wait until its plots are drawn."""
        url = f"{self.file.as_uri()}#{address}"
        if self.page.url.partition("#")[0] == url.partition("#")[0]:
            self.page.evaluate("address => { location.hash = address }", address)
        else:
            self.page.goto(url)
        self.page.wait_for_function("address => decodeURIComponent(location.hash.slice(1)) === address", arg=address)
        self.set_up_child()

    def set_up_child(self) -> None:
        """Every plot of the page that is shown is drawn."""
        self.page.wait_for_function(
            "[...document.querySelectorAll('main .plot')].every(each => each.querySelector('svg'))"
        )

    @property
    def title(self) -> str:
        return self.page.locator("main h1").inner_text()

    def addresses(self) -> list[str]:
        """Of every page in the report."""
        found: list[str] = self.page.evaluate(
            "['/', ...[...document.querySelectorAll('template[data-page]')].map(each => each.dataset.page)]"
        )
        return found


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    notebook = every_state(tmp_path_factory.mktemp("states"))
    return gather(notebook.tree, GPU, Selection())


@pytest.fixture(scope="session")
def file(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    html.write(report, path)
    return path


@pytest.fixture(scope="session")
def browser(pytestconfig: pytest.Config) -> Iterator[Browser]:
    if pytestconfig.getoption("fast"):
        pytest.skip("it starts a browser")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium here; on Debian: apt-get install chromium")
    with sync_playwright() as playwright:
        root = ["--no-sandbox"] if os.getuid() == 0 else []  # chromium's sandbox refuses root
        browser = playwright.chromium.launch(executable_path=chromium, args=root)
        yield browser
        browser.close()


@pytest.fixture
def reader(browser: Browser, file: Path) -> Iterator[Reader]:
    """The report on a wide screen; a test fails when the page says anything or asks for anything but itself."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    reader = Reader.of(context.new_page(), file)
    reader.open()
    yield reader
    context.close()
    assert reader.said == []
    assert {url.partition("#")[0] for url in reader.asked} == {file.as_uri()}
