"""The page: templates filled, plots and scripts embedded, and a policy that lets nothing else run or load."""

import base64
import hashlib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

import msgspec
import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from harness import __version__
from harness.extras.profile.figures import FIGURES
from harness.extras.report import figures, palette, plots, rows
from harness.extras.report.gather import Entry, Report, Shape, Sheet
from harness.extras.report.roofline import Roofline, roofline
from harness.machine import files

_ASSETS: Final = resources.files("harness.extras.report") / "assets"
_FILTERS: Final = ("number", "ratio", "interval", "percent", "size", "day")


def render(report: Report) -> str:
    """The whole report as HTML.

    Text from records is escaped by the templates, and by `embedded` within a script. Should either fail one day, the
    policy still runs no script but these two, by their hashes, and loads nothing.
    """
    environment = Environment(
        loader=PackageLoader("harness.extras.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=figures.tame,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {name: getattr(figures, name) for name in _FILTERS}
    rooflines = {
        name: found
        for name, (shape, sheet) in _sheets(report).items()
        if (found := roofline(report, shape, sheet)) is not None
    }
    style = palette.style() + _asset("report.css")
    scripts = (_library(), _asset("report.js"))
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(map(_source_hash, scripts))}",
            f"style-src {_source_hash(style)}",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    return environment.get_template("page.html").render(
        report=report,
        version=__version__,
        policy=policy,
        style=Markup(style),
        scripts=[Markup(script) for script in scripts],
        data=embedded(_data(report, rooflines)),
        rooflines=rooflines,
    )


def write(report: Report, path: Path) -> int:
    """Write the page whole or not at all; its size in bytes."""
    content = render(report).encode()
    files.put(path, content)
    return len(content)


def embedded(document: object) -> Markup:
    """JSON that cannot end its script, nor begin a comment there: no ``<``, ``>`` or ``&`` stays as it is."""
    text = msgspec.json.encode(document).decode()
    for each in "<>&\u2028\u2029":
        text = text.replace(each, f"\\u{ord(each):04x}")
    return Markup(text)


def _data(report: Report, rooflines: dict[str, Roofline]) -> dict[str, Any]:
    """What scripts draw from; all else is in the templates."""
    forest = rows.forest(report)
    sheets = _sheets(report)
    return {
        "specs": {
            "forest": plots.forest(len(forest), rows.reach(forest)),
            "blocks": plots.blocks(),
            "chip": plots.chip(),
            "roofline": plots.roofline(),
            "ladder-ratio": plots.ladder("ratio"),
            "ladder-tflops": plots.ladder("tflops"),
        },
        "forest": forest,
        "ladders": {name: rows.ladder(sheet) for name, (_, sheet) in sheets.items()},
        "rooflines": {name: rows.roofline(found) for name, found in rooflines.items()},
        "metrics": _metrics(report),
        "chip": {entry.page: _trace(entry) for entry in report.entries if _trace(entry)},
        "blocks": {entry.page: _blocks(entry) for entry in report.entries if _blocks(entry)},
    }


def _sheets(report: Report) -> dict[str, tuple[Shape, Sheet]]:
    """Every sheet, by the name that its plots have."""
    return {
        f"{shape.page}#{position}": (shape, sheet)
        for shape in report.shapes
        for position, sheet in enumerate(shape.sheets)
    }


def _blocks(entry: Entry) -> Any:
    measured = entry.record.measurement if entry.record else None
    return measured.blocks if measured else None


def _trace(entry: Entry) -> Any:
    measured = entry.record.measurement if entry.record else None
    return measured.telemetry.trace if measured and measured.telemetry else None


def _metrics(report: Report) -> dict[str, Any]:
    """Each name once, with what it tells, and of each profile the names' positions, values and units."""
    meanings = {source.metric: source.tells for source in FIGURES.values()}
    found = {entry.page: entry.profile.metrics for entry in report.entries if entry.profile and entry.profile.metrics}
    names = {
        name: position for position, name in enumerate(dict.fromkeys(name for each in found.values() for name in each))
    }
    return {
        "names": [(figures.tame(name), meanings.get(name, "")) for name in names],
        "values": {
            page: [
                (names[name], figures.number(each.value, 6), figures.tame(each.unit)) for name, each in metrics.items()
            ]
            for page, metrics in found.items()
        },
    }


@cache
def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script, of the versions that vl-convert carries."""
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text()


def _source_hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
