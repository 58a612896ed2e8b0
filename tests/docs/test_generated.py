"""The generated parts of the documentation are what the code and the records give."""

import subprocess
import sys
from pathlib import Path

import pytest

from docs.generator import boards, pages, rooms
from harness.operators import OPERATORS
from tests.harness.test_structure import MODULES, imports, room_of

ROOT = Path(__file__).resolve().parents[2]
ARCHITECTURE = ROOT / "docs" / "explanation" / "architecture.md"
PAGE = "# Title\n\n<!-- generated: {name} -->\n{text}<!-- end -->\n\nMore.\n"


@pytest.mark.parametrize("page", pages.pages(), ids=str)
def test_every_page_is_up_to_date(page: Path) -> None:
    assert list(pages.outdated(page)) == [], "run: make docs"


@pytest.mark.parametrize("page", pages.pages(), ids=str)
def test_every_marker_is_read(page: Path) -> None:
    text = (ROOT / page).read_text()
    assert text.count("<!-- generated") == text.count("<!-- end -->") == len(pages.parts(page))


def test_a_page_that_is_out_of_date_is_named_and_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(PAGE.format(name="operators", text="\n| old |\n\n"))
    assert list(pages.outdated(Path("page.md"))) == ["page.md: the part 'operators' is out of date"]
    assert pages.update(Path("page.md"))
    assert "| `matmul` | MxNxK |" in page.read_text()
    assert page.read_text().startswith("# Title\n") and page.read_text().endswith("\n\nMore.\n")
    assert list(pages.outdated(Path("page.md"))) == []
    assert not pages.update(Path("page.md"))


def test_staleness_is_written_and_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setitem(pages.PARTS, "staleness h200", lambda: "All rows are stale.")
    page = tmp_path / "page.md"
    page.write_text(PAGE.format(name="staleness h200", text=""))
    assert list(pages.outdated(Path("page.md"))) == []
    pages.update(Path("page.md"))
    assert "All rows are stale." in page.read_text()


def test_an_unknown_part_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text(PAGE.format(name="no such part", text=""))
    with pytest.raises(LookupError, match="no such part"):
        list(pages.outdated(Path("page.md")))


def test_check_writes_nothing() -> None:
    before = {page: (ROOT / page).stat().st_mtime_ns for page in pages.pages()}
    command = [sys.executable, "-m", "docs.generator", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert before == {page: (ROOT / page).stat().st_mtime_ns for page in pages.pages()}


def test_the_board_has_ten_rows_of_different_operators() -> None:
    rows = boards.summary_board("h200").splitlines()[2:]
    operators = {row.removeprefix("| [").partition("_")[0] for row in rows}
    assert len(rows) == len(operators) == boards.ROWS
    assert operators <= OPERATORS.keys() - {boards.COPY}


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 900


def test_every_folder_of_the_harness_is_in_the_architecture() -> None:
    text = ARCHITECTURE.read_text()
    for path in (ROOT / "harness").rglob("*/"):
        if any(path.glob("*.py")):
            assert f"`{path.relative_to(ROOT)}/`" in text, path


def test_every_arrow_of_the_drawing_is_an_import() -> None:
    drawn = [line.split("-->") for line in rooms.drawing().splitlines() if "-->" in line]
    arrows = {tuple(side.partition('["')[2].partition('"]')[0] for side in line) for line in drawn}
    true = {tuple(map(rooms.short, (room_of(module), room_of(each)))) for module in MODULES for each in imports(module)}
    assert arrows
    assert arrows <= true
