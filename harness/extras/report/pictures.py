"""Pictures for a README, drawn without a browser: the overview, and the longest ladder that one model climbed."""

from pathlib import Path
from typing import Any, Final

import vl_convert

from harness.errors import UsageError
from harness.extras.report import palette, plots, rows
from harness.extras.report.gather import Report, Shape
from harness.machine import files

THEMES: Final = ("light", "dark")
_WIDTH: Final = 860


def _rungs(shape: Shape) -> int:
    """Of the ladder of one model alone; 0 where several climbed."""
    models = [each.row.model for each in shape.sheets[0].ladder]
    return len(models) if len(set(models)) == 1 else 0


def write(report: Report, folder: Path) -> list[Path]:
    """Draw each picture in each theme, as ``<name>-<theme>.svg``. Raises UsageError if nothing is ranked."""
    leader = report.best_first[0]
    if leader.best is None:
        raise UsageError(f"nothing under tuning/{report.gpu.key}/ is measured, so there is nothing to draw")
    climbed = max((each for each in report.best_first if each.best), key=_rungs)
    sheet = climbed.sheets[0]
    baselines = {shape.sheets[0].board.baseline for shape in report.best_first if shape.best}
    baseline = baselines.pop() if len(baselines) == 1 else "the library"
    device = sheet.board.environment.device if sheet.board.environment else report.gpu.key
    forest, ladder = rows.forest(report), rows.ladder(climbed, sheet)
    drawn = {
        "overview": _filled(
            plots.forest(forest, wide=True),
            {"rows": forest},
            title=f"{device}: the best of each problem",
            subtitle=f"{baseline}'s time over the kernel's, with its 95% interval; right of the dashes: faster"
            + ("; hollow: stale" if any(row["stale"] for row in forest) else ""),
        ),
        "ladder": _filled(
            plots.with_rows(plots.ladder("ratio"), ladder),
            {"rows": ladder, "baseline": [{"at": 1}]},
            title=climbed.problem.shape_key,
            subtitle=f"▲ kept · ○ discarded · cross: failed · green: best so far · dashed: {sheet.board.baseline}",
        ),
    }
    written = []
    for name, spec in drawn.items():
        svg = vl_convert.vegalite_to_svg(spec)
        for theme in THEMES:
            path = folder / f"{name}-{theme}.svg"
            files.put(path, f"{palette.coloured(svg, dark=theme == 'dark')}\n".encode())
            written.append(path)
    return written


def _filled(spec: plots.Spec, datasets: dict[str, Any], title: str, subtitle: str) -> plots.Spec:
    """A plot that stands alone: with its data, a width, a background, and a title."""
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
