"""The plots, in Vega-Lite; the same for the page, which is interactive, and for the README's pictures.

Each draws the data ``rows``; `harness/extras/report/rows.py` says what is in them.
"""

from typing import Any, Final

from harness.extras.report.palette import variable
from harness.extras.report.roofline import DATASHEET, REACHED
from harness.extras.report.rows import Rows

Spec = dict[str, Any]

_FONT: Final = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
_CROSS: Final = "M-1-1L1 1M1-1L-1 1"
_TITLES: Final = {"ratio": "ratio to the baseline", "tflops": "TFLOPS"}


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


def _baseline(axis: str, at: Spec, **rest: Any) -> list[Spec]:
    return [
        {
            "mark": {
                "type": "rule",
                "strokeDash": [5, 4],
                "stroke": variable("soft"),
                "strokeWidth": 1.5,
                "aria": False,
            },
            "encoding": {axis: at},
            **rest,
        }
    ]


_VERDICTS: Final = ("faster", "as fast", "slower")
_BY_VERDICT: Final = {
    "field": "verdict",
    "type": "nominal",
    "legend": None,
    "scale": {"domain": _VERDICTS, "range": [variable("good"), variable("soft"), variable("bad")]},
}


def forest(problems: int, reach: float | None = None) -> Spec:
    """The best ratio of so many problems, with its interval; each name stands above, so that a phone has room.

    What lies beyond ``reach`` stands at the edge.
    """
    by_problem = {"field": "problem", "type": "nominal", "sort": None, "axis": None}
    tooltip = [
        {"field": "problem", "title": "problem"},
        {"field": "iteration", "title": "best iteration"},
        {"field": "ratio", "title": "ratio", "format": ".4f"},
        {"field": "low", "title": "interval from", "format": ".4f"},
        {"field": "high", "title": "to", "format": ".4f"},
        {"field": "verdict", "title": "than the baseline"},
    ]
    scale: Spec = {"zero": False, "nice": True, "padding": 24}
    scale |= {"domainMax": reach, "clamp": True} if reach is not None else {}
    text: Spec = {"type": "text", "dy": -16, "aria": False, "cursor": "pointer"}
    return _spec(
        "Each problem's best ratio to the baseline with its 95% interval; the table below has the same figures",
        [
            *_baseline("x", {"datum": 1, "type": "quantitative"}),
            {
                "mark": {"type": "rule", "strokeWidth": 3, "aria": False},
                "encoding": {
                    "x": {"field": "low", "type": "quantitative", "scale": scale, "title": _TITLES["ratio"]}
                    | {"axis": {"labelOverlap": True, "tickCount": 8, "format": ".4~f"}},
                    "x2": {"field": "high"},
                    "y": by_problem,
                    "color": _BY_VERDICT,
                },
            },
            *(
                {
                    "mark": {"type": "tick", "thickness": 2, "size": 13, "orient": "vertical", "aria": False},
                    "encoding": {"x": {"field": end, "type": "quantitative"}, "y": by_problem, "color": _BY_VERDICT},
                }
                for end in ("low", "high")
            ),
            {
                "mark": {"type": "point", "filled": True, "size": 80, "opacity": 1, "cursor": "pointer"},
                "encoding": {
                    "x": {"field": "ratio", "type": "quantitative"},
                    "y": by_problem,
                    "color": _BY_VERDICT,
                    "shape": {
                        "field": "verdict",
                        "legend": None,
                        "scale": {"domain": _VERDICTS, "range": ["triangle-right", "circle", "triangle-left"]},
                    },
                    "tooltip": tooltip,
                },
            },
            *(
                {"mark": text | side | halo, "encoding": {"text": {"field": field}, "x": x, "y": by_problem}}
                for halo in ({"stroke": variable("paper"), "strokeWidth": 5}, {})
                for field, side, x in (
                    ("problem", {"align": "left"}, {"value": 0}),
                    ("written", {"align": "right", "fontWeight": "bold"}, {"value": {"expr": "width"}}),
                )
            ),
        ],
        height=46 * problems,
    )


def ladder(figure: str) -> Spec:
    """``figure`` (``ratio`` or ``tflops``) over iterations, with the best so far as a staircase.

    The baseline's own figure is the data ``baseline``. The parameter ``lowest`` cuts the axis, since a first kernel at
    0.4 hides what happens at 1; null shows all.
    """
    number: Spec = {"field": "number", "type": "quantitative", "title": "iteration"}
    number |= {"axis": {"tickMinStep": 1, "format": "03d", "grid": False}, "scale": {"nice": False, "padding": 14}}
    scale = {"zero": False, "nice": True, "padding": 10, "domainMin": {"expr": "lowest"}}
    tooltip = [
        {"field": "iteration", "title": "iteration"},
        {"field": "model", "title": "model"},
        {"field": "outcome", "title": "outcome"},
        {"field": "ratio", "title": "ratio", "format": ".4f"},
        {"field": "ratio_low", "title": "interval from", "format": ".4f"},
        {"field": "ratio_high", "title": "to", "format": ".4f"},
        {"field": "tflops", "title": "TFLOPS", "format": ".4~g"},
        {"field": "said", "title": "idea"},
    ]

    def marks(outcome: str, colour: str, y: Spec, **mark: Any) -> Spec:
        style = {"type": "point", "size": 55, "opacity": 1, "stroke": variable(colour), "cursor": "pointer"}
        return {
            "name": outcome,
            "transform": [{"filter": f"datum.outcome == '{outcome}'"}],
            "mark": style | {"strokeWidth": 2, "clip": True} | mark,
            "encoding": {"x": number, "y": y, "tooltip": tooltip, "description": {"field": "label"}},
        }

    y = {"field": figure, "type": "quantitative", "scale": scale, "title": _TITLES[figure]}
    return _spec(
        f"{_TITLES[figure]} over iterations: kept, discarded and failed ones, and the best so far; "
        "the leaderboard below has the same figures",
        [
            *_baseline("y", {"field": "at", "type": "quantitative"}, data={"name": "baseline"}),
            {
                "mark": {
                    "type": "line",
                    "interpolate": "step-after",
                    "stroke": variable("good"),
                    "strokeWidth": 2,
                    "clip": True,
                    "aria": False,
                },
                "encoding": {
                    "x": number,
                    "y": {"field": f"{figure}_best", "type": "quantitative"},
                    "detail": {"field": "model"},
                },
            },
            *(
                {
                    "mark": mark | {"clip": True, "aria": False, "color": variable("ink")},
                    "encoding": {"x": number, "y": y | {"field": f"{figure}_{end}"}, **until},
                }
                for mark, end, until in (
                    ({"type": "rule", "strokeWidth": 1.5}, "low", {"y2": {"field": f"{figure}_high"}}),
                    ({"type": "tick", "thickness": 1.5, "size": 9, "orient": "horizontal"}, "low", {}),
                    ({"type": "tick", "thickness": 1.5, "size": 9, "orient": "horizontal"}, "high", {}),
                )
            ),
            marks("discard", "soft", y, shape="circle", fill=variable("paper")),
            marks("keep", "good", y, shape="triangle-up", fill=variable("good"), size=80),
            marks("failed", "bad", {"value": {"expr": "height - 7"}}, shape=_CROSS, fill=None, strokeWidth=2.6),
        ],
        height=300,
        params=[{"name": "lowest", "value": None}],
    )


def with_rows(spec: Spec, rows: Rows) -> Spec:
    """Without the layers of outcomes that no row has: from no rows a scale has no extent. The page does likewise."""
    present = {row["outcome"] for row in rows}
    return {**spec, "layer": [each for each in spec["layer"] if each.get("name", "") in {"", *present}]}


def roofline() -> Spec:
    """TFLOPS over FLOP per byte, both logarithmic; a filled mark has its bytes counted."""
    log: Spec = {"type": "log", "nice": False}
    x: Spec = {"field": "intensity", "type": "quantitative", "scale": log, "title": "FLOP per byte of device memory"}
    y: Spec = {"field": "tflops", "type": "quantitative", "scale": log | {"padding": 18}, "title": "TFLOPS"}
    x |= {"axis": {"grid": False, "labelOverlap": True, "format": ",~g", "tickCount": 5}}
    y |= {"axis": {"labelOverlap": True, "format": ",~g", "tickCount": 5}}
    kinds = {"field": "kind", "legend": None}
    dash = kinds | {"scale": {"domain": [DATASHEET, REACHED], "range": [[1, 0], [5, 4]]}}
    counted = {"test": "datum.bytes == 'counted by ncu'", "value": variable("accent")}
    tooltip = [
        {"field": "iteration", "title": "iteration"},
        {"field": "model", "title": "model"},
        {"field": "tflops", "title": "TFLOPS", "format": ".4~g"},
        {"field": "intensity", "title": "FLOP per byte", "format": ".4~g"},
        {"field": "bytes", "title": "bytes"},
        {"field": "bound", "title": "bound"},
    ]

    return _spec(
        "Roofline: TFLOPS of each iteration over FLOP per byte, under the ceilings that are listed below",
        [
            {
                "data": {"name": "roofs"},
                "mark": {"type": "line", "stroke": variable("soft"), "strokeWidth": 2, "aria": False},
                "encoding": {"x": x, "y": y, "strokeDash": dash},
            },
            {
                "mark": {"type": "point", "size": 70, "opacity": 1, "stroke": variable("accent"), "cursor": "pointer"},
                "encoding": {
                    "x": x,
                    "y": y,
                    "fill": {"condition": counted, "value": variable("paper")},
                    "tooltip": tooltip,
                    "description": {"field": "label"},
                },
            },
        ],
        height=300,
    )


def blocks() -> Spec:
    """The raw blocks of one measurement; rules part the placements."""
    x = {"field": "round", "type": "quantitative", "title": "round", "scale": {"nice": False, "padding": 8}}
    x |= {"axis": {"grid": False, "tickMinStep": 1}}
    tooltip = [
        {"field": "round", "title": "round"},
        {"field": "placement", "title": "placement"},
        {"field": "baseline_ms", "title": "baseline, ms"},
        {"field": "contestant_ms", "title": "kernel, ms"},
        {"field": "ratio", "title": "ratio", "format": ".4f"},
    ]

    def side(field: str, colour: str, **mark: Any) -> Spec:
        y = {"field": field, "type": "quantitative", "title": "ms per launch", "scale": {"zero": False, "nice": True}}
        return {
            "mark": {"type": "point", "size": 42, "opacity": 1, "stroke": variable(colour), "strokeWidth": 1.5} | mark,
            "encoding": {"x": x, "y": y, "tooltip": tooltip},
        }

    return _spec(
        "Time per launch in each round, of the baseline and of the kernel",
        [
            {
                "transform": [{"filter": "datum.first"}],
                "mark": {"type": "rule", "stroke": variable("rule"), "aria": False},
                "encoding": {"x": {"field": "edge", "type": "quantitative"}},
            },
            side("baseline_ms", "soft", shape="diamond", fill=variable("paper")),
            side("contestant_ms", "accent", shape="circle", fill=variable("accent")),
        ],
        height=220,
    )


def chip() -> Spec:
    """SM clock and power over one measurement, each on an axis of its own; the power's line is dashed."""
    x = {"field": "seconds", "type": "quantitative", "title": "seconds", "scale": {"nice": False}}
    x |= {"axis": {"grid": False}}
    tooltip = [
        {"field": "seconds", "title": "seconds", "format": ".2f"},
        {"field": "sm_clock_mhz", "title": "SM clock, MHz"},
        {"field": "power_w", "title": "power, W"},
    ]

    def line(field: str, title: str, colour: str, **mark: Any) -> Spec:
        scale = {"zero": False, "nice": True, "padding": 6}
        axis = {"titleColor": variable(colour), "labelColor": variable(colour)}
        y = {"field": field, "type": "quantitative", "title": title, "scale": scale, "axis": axis}
        style = {"type": "line", "interpolate": "step-after", "stroke": variable(colour), "strokeWidth": 2}
        return {"mark": style | {"point": False} | mark, "encoding": {"x": x, "y": y, "tooltip": tooltip}}

    return _spec(
        "SM clock and power while the blocks were measured",
        [
            line("sm_clock_mhz", "SM clock, MHz", "accent"),
            line("power_w", "power, W (dashed)", "soft", strokeDash=[6, 4]),
        ],
        resolve={"scale": {"y": "independent"}},
        height=180,
    )
