"""What a report of 500 iterations costs: to write, to send, to open. Counted, since seconds are a machine's."""

import cProfile
import pstats
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from harness.catalog.tree import Selection
from harness.extras.report import page as html
from harness.extras.report.gather import Report, gather
from tests.harness.extras.report.conftest import Reader
from tests.harness.extras.report.notebook import GPU, Notebook, many

MOST_BYTES = 8_500_000  # a record of 2026 takes 16 kB of it
MOST_CALLS = 50_000  # of Python functions, for an iteration: 20 ms or so
MOST_ELEMENTS = 5_000  # of the page that is open; the others wait in templates


def written(notebook: Notebook, file: Path) -> tuple[Report, int, int]:
    """A report, the calls that it took, and its bytes."""
    with cProfile.Profile() as profile:
        gathered = gather(notebook.tree, GPU, Selection())
        size_bytes = html.write(gathered, file)
    return gathered, pstats.Stats(profile).total_calls, size_bytes  # type: ignore[attr-defined]


@pytest.mark.slow
def test_500_iterations_of_20_problems(tmp_path: Path, browser: Browser, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("first", "few", "many"):
        (tmp_path / name).mkdir()
    written(many(tmp_path / "first", problems=1, iterations=2), tmp_path / "first.html")  # fills caches
    _, few, _ = written(many(tmp_path / "few", problems=10, iterations=10), tmp_path / "few.html")
    notebook = many(tmp_path / "many", problems=20, iterations=25)
    gathered, calls, size_bytes = written(notebook, file := tmp_path / "report.html")
    assert len(gathered.entries) == 500

    context = browser.new_context()
    reader = Reader.of(context.new_page(), file)
    reader.open()
    elements: int = reader.page.evaluate("document.querySelectorAll('*').length")
    reader.open(gathered.shapes[-1].page)
    context.close()
    with capsys.disabled():
        print(f"\n{few:,} and {calls:,} calls, {size_bytes / 1e6:.2f} MB, {elements:,} elements")
    assert reader.said == []
    assert calls < 1.2 * 5 * few, "the costs of an iteration rise with their number"
    assert calls < MOST_CALLS * 500
    assert elements < MOST_ELEMENTS
    assert size_bytes < MOST_BYTES
