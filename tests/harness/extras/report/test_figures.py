"""What a report of 500 iterations costs: to write, to send, to open."""

import time
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from harness.catalog.tree import Selection
from harness.extras.report import page as html
from harness.extras.report.gather import gather
from tests.harness.extras.report.conftest import Reader
from tests.harness.extras.report.notebook import GPU, many

WRITTEN_S = 10.0
LOADED_S = 2.0
MOST_BYTES = 8_000_000


@pytest.mark.slow
def test_500_iterations_of_20_problems(tmp_path: Path, browser: Browser, capsys: pytest.CaptureFixture[str]) -> None:
    notebook = many(tmp_path, problems=20, iterations=25)
    start = time.perf_counter()
    gathered = gather(notebook.tree, GPU, Selection())
    size_bytes = html.write(gathered, file := tmp_path / "report.html")
    written_s = time.perf_counter() - start
    assert len(gathered.entries) == 500

    context = browser.new_context()
    reader = Reader.of(context.new_page(), file)
    start = time.perf_counter()
    reader.open()
    loaded_s = time.perf_counter() - start
    start = time.perf_counter()
    reader.open(gathered.shapes[-1].page)
    turned_s = time.perf_counter() - start
    context.close()
    with capsys.disabled():
        print(
            f"\nwritten {written_s:.1f} s, {size_bytes / 1e6:.2f} MB, loaded {loaded_s:.2f} s, turned {turned_s:.2f} s"
        )
    assert reader.said == []
    assert written_s < WRITTEN_S
    assert loaded_s < LOADED_S
    assert size_bytes < MOST_BYTES
