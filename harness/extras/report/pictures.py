"""Pictures for a README: the overview, and the ladder with the largest lead, drawn without a browser."""

from pathlib import Path
from typing import Any, Final

import vl_convert

from harness.errors import UsageError
from harness.extras.report import palette, plots, rows
from harness.extras.report.gather import Report

THEMES: Final = ("light", "dark")
RUNGS_LEAST: Final = 5  # of a ladder that has something to show
_WIDTH: Final = 760


def write(report: Report, folder: Path) -> list[Path]:
    """Each picture in each theme, as ``<name>-<theme>.svg``; raises UsageError where nothing is ranked."""
    leader = report.best_first[0]
    if leader.best is None:
        raise UsageError(f"nothing under tuning/{report.gpu.key}/ is measured, so there is nothing to draw")
    climbed = next((shape for shape in report.best_first if len(shape.sheets[0].ladder) >= RUNGS_LEAST), leader)
    sheet = climbed.sheets[0]
    baseline = sheet.board.baseline
    opponents = {shape.sheets[0].board.baseline for shape in report.best_first if shape.best}
    device = sheet.board.environment.device if sheet.board.environment else report.gpu.key
    forest, ladder = rows.forest(report), rows.ladder(sheet)
    drawn = {
        "overview": _filled(
            plots.forest(len(forest), rows.reach(forest)),
            {"rows": forest},
            title=f"{device}: the best of each problem",
            subtitle=f"{baseline if len(opponents) == 1 else 'the library'}'s time over the kernel's, with its 95% "
            "interval; right of the dashes: faster",
        ),
        "ladder": _filled(
            plots.with_rows(plots.ladder("ratio"), ladder),
            {"rows": ladder, "baseline": [{"at": 1}]},
            title=climbed.problem.shape_key,
            subtitle=f"▲ kept · ○ discarded · cross: failed · green: best so far · dashed: {baseline}",
        ),
    }
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, spec in drawn.items():
        svg = vl_convert.vegalite_to_svg(spec)
        for theme in THEMES:
            path = folder / f"{name}-{theme}.svg"
            path.write_text(palette.coloured(svg, dark=theme == "dark") + "\n")
            written.append(path)
    return written


def _filled(spec: plots.Spec, datasets: dict[str, Any], title: str, subtitle: str) -> plots.Spec:
    """A plot of its own: data in it, a width, paper behind it, and words where the page would have some beside it."""
    head = {"text": title, "subtitle": subtitle, "anchor": "start", "frame": "group", "offset": 12}
    colours = {"color": palette.variable("ink"), "subtitleColor": palette.variable("soft")}
    return {
        **spec,
        "width": _WIDTH,
        "datasets": datasets,
        "background": palette.variable("paper"),
        "padding": 14,
        "title": head | colours,
    }
