"""The plots in Vega-Lite. The interactive page and the README's pictures use the same ones.

Each plot draws the data ``rows``, which `harness/extras/report/rows.py` makes.
"""

from collections.abc import Iterator
from typing import Any, Final

from harness.extras.report.palette import variable
from harness.extras.report.roofline import DATASHEET, POWER, REACHED
from harness.extras.report.rows import Rows

Spec = dict[str, Any]

_FONT: Final = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
_CROSS: Final = "M-1-1L1 1M1-1L-1 1"
_BREAK: Final = "M-0.7 1L0.1 -1M-0.1 1L0.7 -1"  # two slashes
_STROKE: Final = "M0-1L0 1"
_RATIO: Final = "ratio to the baseline"


def _spec(description: str, layers: list[Spec], **rest: Any) -> Spec:
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "description": description,
        "width": "container",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"name": "rows"},
        "layer": layers,
        "config": {
            "background": None,
            "font": _FONT,
            "view": {"stroke": None},
            "axis": {
                "labelColor": variable("soft"),
                "titleColor": variable("soft"),
                "titleFontWeight": "normal",
                "labelFontSize": 12,
                "titleFontSize": 12,
                "gridColor": variable("rule"),
                "domainColor": variable("rule"),
                "tickColor": variable("rule"),
                "aria": False,
            },
            "text": {"fontSize": 12, "fill": variable("ink")},
        },
        **rest,
    }


def _layer(kind: str, encoding: Spec, *, where: str | None = None, **style: Any) -> Spec:
    """A mark of one kind; ``where`` is a condition on ``datum``."""
    chosen = {"transform": [{"filter": where}]} if where else {}
    return chosen | {"mark": {"type": kind, **style}, "encoding": encoding}


def _number(field: str, **rest: Any) -> Spec:
    return {"field": field, "type": "quantitative", **rest}


def _tooltip(*fields: tuple[str, ...]) -> list[Spec]:
    """(field, title, format); the field is its own title if there is no other."""
    return [
        dict(zip(("field", "title", "format"), (*each, *each)[: max(2, len(each))], strict=False)) for each in fields
    ]


_DASHED: Final[Spec] = {"strokeDash": [5, 4], "stroke": variable("soft"), "strokeWidth": 1.5, "aria": False}
_VERDICTS: Final = ("faster", "as fast", "slower")
_BY_VERDICT: Final = {
    "field": "verdict",
    "type": "nominal",
    "legend": None,
    "scale": {"domain": _VERDICTS, "range": [variable("good"), variable("soft"), variable("bad")]},
}
_NAME_PX: Final = 360
_RATIO_PX: Final = 70
_BREAK_PX: Final = 40


def forest(rows: Rows, *, wide: bool) -> Spec:
    """The best ratio of each problem with its interval; a hollow mark is stale.

    A wide plot has the names on the left. A narrow one has them above the marks, so that a phone has room.
    """
    step, name_at, mark_at = (24, 0.5, 0.5) if wide else (40, 0.25, 0.7)
    left, right = (_NAME_PX, _RATIO_PX) if wide else (0, 12)
    broken = any(row["beyond"] for row in rows)
    end = right + (_BREAK_PX if broken else 0)

    def at(position: float) -> Spec:
        return {"field": "problem", "type": "nominal", "sort": None, "axis": None, "bandPosition": position} | {
            "scale": {"type": "band", "domain": [row["problem"] for row in rows]}
        }

    scale: Spec = {"zero": False, "nice": True, "padding": 12, "range": [left, {"expr": f"width - {end}"}]}
    axis: Spec = {"labelOverlap": True, "tickCount": 8, "format": ".4~f"}
    low = _number("low", scale=scale, axis=axis, title=_RATIO)
    tooltip = _tooltip(
        *(("problem",), ("iteration", "best iteration"), ("ratio", "ratio", ".4f"), ("low", "interval from", ".4f")),
        *(("high", "to", ".4f"), ("verdict", "than the baseline"), ("stale",)),
    )
    shape = {"field": "verdict", "legend": None} | {
        "scale": {"domain": _VERDICTS, "range": ["triangle-right", "circle", "triangle-left"]}
    }
    point = {"y": at(mark_at), "stroke": _BY_VERDICT, "shape": shape, "tooltip": tooltip}
    point["fill"] = _BY_VERDICT | {"condition": {"test": "datum.stale", "value": variable("paper")}}
    mark: Spec = {"size": 70, "opacity": 1, "strokeWidth": 1.5, "cursor": "pointer"}
    slashes: Spec = {"shape": _BREAK, "size": 130, "fill": None, "stroke": variable("soft"), "strokeWidth": 1.5}
    slashes |= {"aria": False, "where": "datum.beyond"}
    beyond_at, break_at = ({"value": {"expr": f"width - {right + px}"}} for px in (8, 28))
    beyond = [
        _layer("point", point | {"x": beyond_at}, where="datum.beyond", **mark),
        _layer("point", {"x": break_at, "y": at(mark_at)}, **slashes),
        _layer("point", {"x": break_at, "y": {"value": {"expr": "height"}}}, **slashes),
    ]
    one: Spec = {"x": {"datum": 1, "type": "quantitative"}}
    reference = _layer("rule", one, **_DASHED) | {"data": {"values": [{}]}}
    if not wide:  # a dash for each problem, so that no line runs through a name
        reference = _layer("point", one | {"y": at(mark_at)}, **_DASHED, shape=_STROKE, size=420)
    cap: Spec = {"shape": _STROKE, "size": 170, "strokeWidth": 2, "aria": False, "where": "!datum.beyond"}
    text: Spec = {"aria": False, "cursor": "pointer", "baseline": "middle"}
    name_px = _NAME_PX - 12 if wide else {"expr": "width - 50"}
    written = {"text": _number("ratio", format=".4f"), "y": at(name_at), "x": {"value": {"expr": "width"}}}
    name = {"text": {"field": "problem"}, "y": at(name_at), "x": {"value": 0}}
    return _spec(
        "Each problem's best ratio to the baseline with its 95% interval; the table above has the same figures",
        [
            reference,
            _layer(
                "rule",
                {"x": low, "x2": {"field": "high"}, "y": at(mark_at), "color": _BY_VERDICT},
                where="!datum.beyond",
                strokeWidth=3,
                aria=False,
            ),
            *(
                _layer("point", {"x": _number(field), "y": at(mark_at), "stroke": _BY_VERDICT}, **cap)
                for field in ("low", "high")
            ),
            *(_rivals(at(mark_at)) if any(row.get("opponent") for row in rows) else ()),
            _layer("point", point | {"x": _number("ratio")}, where="!datum.beyond", **mark),
            *(beyond if broken else ()),
            _layer("text", name, align="left", limit=name_px, fontSize=12 if wide else 11, **text),
            _layer("text", written, align="right", fontWeight="bold", **text),
        ],
        height=step * len(rows),
    )


def _rivals(y: Spec) -> Iterator[Spec]:
    """The strongest opponent of each problem, with its interval, below the leader's mark."""
    tooltip = _tooltip(
        *(("problem",), ("opponent", "opponent"), ("opponent_ratio", "ratio", ".4f")),
        *(("opponent_low", "interval from", ".4f"), ("opponent_high", "to", ".4f")),
    )
    span = {"x": _number("opponent_low"), "x2": {"field": "opponent_high"}, "y": y}
    look: Spec = {"where": "datum.opponent", "stroke": variable("accent")}
    yield _layer("rule", span, strokeWidth=1.5, aria=False, **look)
    mark: Spec = {"shape": "diamond", "size": 60, "fill": variable("paper"), "opacity": 1, "strokeWidth": 1.5}
    yield _layer("point", {"x": _number("opponent_ratio"), "y": y, "tooltip": tooltip}, **mark, **look)


def ladder(figure: str) -> Spec:
    """``figure`` over iterations, with the best so far as a staircase: the ratio, or the throughput in TFLOPS or GB/s.

    The baseline's figure is the data ``baseline``. The parameter ``lowest`` cuts the axis, because a first kernel at
    0.4 hides the changes near 1; null shows all.
    """
    field, title = ("ratio", _RATIO) if figure == "ratio" else ("rate", figure)
    rate = title if field == "rate" else "throughput"
    number = _number("number", title="iteration", scale={"nice": False, "padding": 14})
    number |= {"axis": {"tickMinStep": 1, "format": "03d", "grid": False}}
    scale: Spec = {"zero": False, "nice": True, "padding": 10, "domainMin": {"expr": "lowest"}}
    y = _number(field, scale=scale, title=title)
    tooltip = _tooltip(
        *(("iteration",), ("model",), ("outcome",), ("ratio", "ratio", ".4f"), ("ratio_low", "interval from", ".4f")),
        *(("ratio_high", "to", ".4f"), ("rate", rate, ".4~g"), ("idea",)),
    )

    def marks(outcome: str, colour: str, y: Spec, **style: Any) -> Spec:
        encoding = {"x": number, "y": y, "tooltip": tooltip, "description": {"field": "label"}}
        common = {"size": 55, "opacity": 1, "stroke": variable(colour), "cursor": "pointer", "strokeWidth": 2}
        return {"name": outcome} | _layer(
            "point", encoding, where=f"datum.outcome == '{outcome}'", clip=True, **common | style
        )

    stairs = {"x": number, "y": _number(f"{field}_best"), "detail": {"field": "model"}}
    low, high = (y | {"field": f"{field}_{end}"} for end in ("low", "high"))
    bar: Spec = {"clip": True, "aria": False, "color": variable("ink")}
    cap: Spec = bar | {"thickness": 1.5, "size": 9, "orient": "horizontal"}
    return _spec(
        f"{title} over iterations: kept, discarded and failed ones, and the best so far; "
        "the leaderboard below has the same figures",
        [
            _layer("rule", {"y": _number("at")}, **_DASHED) | {"data": {"name": "baseline"}},
            _layer(
                "line",
                stairs,
                interpolate="step-after",
                stroke=variable("good"),
                strokeWidth=2,
                clip=True,
                aria=False,
            ),
            _layer("rule", {"x": number, "y": low, "y2": {"field": f"{field}_high"}}, strokeWidth=1.5, **bar),
            _layer("tick", {"x": number, "y": low}, **cap),
            _layer("tick", {"x": number, "y": high}, **cap),
            marks("discard", "soft", y, shape="circle", fill=variable("paper")),
            marks("keep", "good", y, shape="triangle-up", fill=variable("good"), size=80),
            marks("failed", "bad", {"value": {"expr": "height - 7"}}, shape=_CROSS, fill=None, strokeWidth=2.6),
        ],
        height=300,
        params=[{"name": "lowest", "value": None}],
    )


def with_rows(spec: Spec, rows: Rows) -> Spec:
    """The plot without layers of outcomes that no row has: an empty scale has no extent. The page does the same."""
    present = {row["outcome"] for row in rows}
    return {**spec, "layer": [each for each in spec["layer"] if each.get("name", "") in {"", *present}]}


def roofline() -> Spec:
    """TFLOPS over FLOP per byte, both logarithmic. A filled mark has its bytes counted by ncu."""
    log: Spec = {"type": "log", "nice": False}
    axis: Spec = {"labelOverlap": True, "format": ",~g", "tickCount": 5}
    x = _number("intensity", scale=log, title="FLOP per byte of device memory", axis=axis | {"grid": False})
    y = _number("tflops", scale=log | {"padding": 18}, title="TFLOPS", axis=axis)
    dash = {
        "field": "kind",
        "legend": None,
        "scale": {"domain": [DATASHEET, REACHED, POWER], "range": [[1, 0], [5, 4], [1, 3]]},
    }
    counted = {"test": "datum.bytes == 'counted by ncu'", "value": variable("accent")}
    tooltip = _tooltip(
        *(("iteration",), ("model",), ("tflops", "TFLOPS", ".4~g"), ("intensity", "FLOP per byte", ".4~g")),
        *(("bytes",), ("bound",)),
    )
    roofs = _layer("line", {"x": x, "y": y, "strokeDash": dash}, stroke=variable("soft"), strokeWidth=2, aria=False)
    points: Spec = {"x": x, "y": y, "fill": {"condition": counted, "value": variable("paper")}}
    points |= {"tooltip": tooltip, "description": {"field": "label"}}
    return _spec(
        "Roofline: TFLOPS of each iteration over FLOP per byte, under the limits that are listed below",
        [
            roofs | {"data": {"name": "roofs"}},
            _layer("point", points, size=70, opacity=1, stroke=variable("accent"), cursor="pointer"),
        ],
        height=300,
    )


def blocks() -> Spec:
    """The raw blocks of one measurement; vertical rules separate the placements."""
    x = _number("round", title="round", scale={"nice": False, "padding": 8}, axis={"grid": False, "tickMinStep": 1})
    y = {"title": "ms per launch", "scale": {"zero": False, "nice": True}}
    tooltip = _tooltip(
        *(("round",), ("placement",), ("baseline_ms", "baseline, ms"), ("contestant_ms", "kernel, ms")),
        ("ratio", "ratio", ".4f"),
    )

    def side(field: str, colour: str, **style: Any) -> Spec:
        encoding = {"x": x, "y": _number(field, **y), "tooltip": tooltip}
        return _layer("point", encoding, size=42, opacity=1, stroke=variable(colour), strokeWidth=1.5, **style)

    return _spec(
        "Time per launch in each round, of the baseline and of the kernel",
        [
            _layer("rule", {"x": _number("edge")}, where="datum.first", stroke=variable("rule"), aria=False),
            side("baseline_ms", "soft", shape="diamond", fill=variable("paper")),
            side("contestant_ms", "accent", shape="circle", fill=variable("accent")),
        ],
        height=220,
    )


def chip() -> Spec:
    """SM clock and power over one measurement, each with its own axis; the power's line is dashed."""
    x = _number("seconds", title="seconds", scale={"nice": False}, axis={"grid": False})
    tooltip = _tooltip(("seconds", "seconds", ".2f"), ("sm_clock_mhz", "SM clock, MHz"), ("power_w", "power, W"))

    def line(field: str, title: str, colour: str, **style: Any) -> Spec:
        axis: Spec = {"titleColor": variable(colour), "labelColor": variable(colour)}
        y = _number(field, title=title, scale={"zero": False, "nice": True, "padding": 6}, axis=axis)
        look: Spec = {"interpolate": "step-after", "stroke": variable(colour), "strokeWidth": 2, "point": False}
        return _layer("line", {"x": x, "y": y, "tooltip": tooltip}, **look, **style)

    return _spec(
        "SM clock and power while the blocks were measured",
        [
            line("sm_clock_mhz", "SM clock, MHz", "accent"),
            line("power_w", "power, W (dashed)", "soft", strokeDash=[6, 4]),
        ],
        resolve={"scale": {"y": "independent"}},
        height=180,
    )
