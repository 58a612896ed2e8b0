"""The page: filled templates, embedded plots and scripts, and a policy that lets nothing else run or load."""

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
from harness.boards import tables
from harness.boards.power import PowerBound
from harness.extras.profile.figures import FIGURES
from harness.extras.report import figures, palette, plots, rows
from harness.extras.report.gather import Report, Shape, Sheet, tally
from harness.extras.report.roofline import Roofline, roofline
from harness.machine import files

_ASSETS: Final = resources.files("harness.extras.report") / "assets"
_FILTERS: Final = ("number", "breakable", "ratio", "interval", "percent", "error", "size", "day")


def render(report: Report) -> str:
    """The whole report as HTML.

    The templates escape text from records, and `embedded` does so within a script. If either fails one day, the policy
    still runs only these two scripts, by their hashes, and loads nothing.
    """
    found = {name: roofline(report, *each) for name, each in _sheets(report).items()}
    rooflines = {name: each for name, each in found.items() if each is not None}
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
    template = _environment().get_template("page.html")
    return template.render(
        report=report,
        version=__version__,
        policy=policy,
        style=Markup(style),
        scripts=[Markup(script) for script in scripts],
        data=embedded(_data(report, rooflines)),
        rooflines=rooflines,
    )


@cache
def _environment() -> Environment:
    """The templates, each compiled once."""
    made = Environment(
        loader=PackageLoader("harness.extras.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=figures.tame,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {name: getattr(figures, name) for name in _FILTERS} | {
        "tally": tally,
        "regimes": tables.regimes,
        "power_bound": PowerBound.of,
    }
    return made


def write(report: Report, path: Path) -> int:
    """Write the page whole or not at all. Returns its size in bytes."""
    content = render(report).encode()
    files.put(path, content)
    return len(content)


def embedded(document: object) -> Markup:
    """JSON that cannot end its script or begin a comment there: ``<``, ``>`` and ``&`` are escaped."""
    text = msgspec.json.encode(document).decode()
    for each in "<>&\u2028\u2029":
        text = text.replace(each, f"\\u{ord(each):04x}")
    return Markup(text)


def _data(report: Report, rooflines: dict[str, Roofline]) -> dict[str, Any]:
    """The data of the scripts; all else is in the templates."""
    forest = rows.forest(report)
    measured = {entry.page: entry.measured for entry in report.entries if entry.measured}
    return {
        "specs": {
            **{f"forest-{width}": plots.forest(forest, wide=width == "wide") for width in ("wide", "narrow")},
            **{f"ladder-{figure}": plots.ladder(figure) for figure in ("ratio", *report.units)},
            "blocks": plots.blocks(),
            "chip": plots.chip(),
            "roofline": plots.roofline(),
        },
        "forest": forest,
        "ladders": {name: rows.ladder(shape, sheet) for name, (shape, sheet) in _sheets(report).items()},
        "rooflines": {name: rows.roofline(found) for name, found in rooflines.items()},
        "metrics": _metrics(report),
        "chip": {page: chip.trace for page, each in measured.items() if (chip := each.telemetry) and chip.trace},
        "blocks": {page: each.blocks for page, each in measured.items()},
    }


def _sheets(report: Report) -> dict[str, tuple[Shape, Sheet]]:
    """Every sheet by the name of its plots."""
    return {
        f"{shape.page}#{position}": (shape, sheet)
        for shape in report.shapes
        for position, sheet in enumerate(shape.sheets)
    }


def _metrics(report: Report) -> dict[str, Any]:
    """Each metric's name and meaning once; for each profile the positions of names, with values and units."""
    meanings = {column.metric: column.tells for column in FIGURES.values()}
    found = {entry.page: entry.profile.metrics for entry in report.entries if entry.profile and entry.profile.metrics}
    names = list(dict.fromkeys(name for each in found.values() for name in each))
    positions = {name: position for position, name in enumerate(names)}
    return {
        "names": [(figures.tame(name), meanings.get(name, "")) for name in names],
        "values": {
            page: [
                (positions[name], figures.number(each.value, 6), figures.tame(each.unit))
                for name, each in metrics.items()
            ]
            for page, metrics in found.items()
        },
    }


@cache
def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script, in the versions that vl-convert brings."""
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text()


def _source_hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
