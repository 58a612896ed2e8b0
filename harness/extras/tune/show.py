"""What a search found, over any two levers: a pivot table for a terminal, and a heat map as a picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tabulate import tabulate

from harness.errors import UsageError
from harness.extras.tune.record import SCREEN, Pick, Standing, Trial, standings
from harness.extras.tune.space import constant, text, words
from harness.records.base import Status

PICTURES: Final = (".svg", ".png")


@dataclass(frozen=True, slots=True)
class Cell:
    """The best figure at a pair of values of two levers, and what is shown of it."""

    row: Any
    column: Any
    figure: float
    shown: str


def chosen(trials: Sequence[Trial], engine: str, race: int | None) -> list[Standing]:
    """The candidates of one search, the newest of an engine where no race is named; raises UsageError."""
    races = {trial.race for trial in trials if trial.engine == engine}
    if not races:
        raise UsageError(f"no search by {engine} is recorded here; run tilebench tune with --shape and --model first")
    number = max(races) if race is None else race
    if number not in races:
        raise UsageError(f"there is no race {number} by {engine}; there are {', '.join(map(str, sorted(races)))}")
    found = standings(trial for trial in trials if trial.engine == engine and trial.race == number)
    if all(figure_of(each) is None for each in found):
        raise UsageError(f"no candidate of race {number} by {engine} passed; the first said: {found[0].trial.reason}")
    return found


def levers_of(found: Sequence[Standing], named: str | None) -> tuple[str, str]:
    """The two levers to show: those named as ``block_M,block_N``, else the two that the result hangs on most."""
    configs = [each.trial.config for each in found]
    varied = [name for name in dict.fromkeys(n for c in configs for n in c) if name not in constant(configs)]
    if named is not None:
        pair = [name.strip() for name in named.split(",")]
        known = {name for config in configs for name in config}
        if len(pair) != 2 or pair[0] == pair[1] or not set(pair) <= known:
            raise UsageError(f"--levers '{named}' are not two of {', '.join(sorted(known))}")
        return pair[0], pair[1]
    if len(varied) < 2:
        raise UsageError("fewer than two levers vary here; name two with --levers")
    first, second = sorted(varied, key=lambda name: -_spread(found, name))[:2]
    return first, second


def cells(found: Sequence[Standing], levers: tuple[str, str]) -> list[Cell]:
    """The best figure at each pair of values, over all other levers: the ratio, or the latency in ms."""
    best: dict[tuple[str, str], Cell] = {}
    for each in found:
        figure = figure_of(each)
        if figure is None or not all(lever in each.trial.config for lever in levers):
            continue
        pair = each.trial.config[levers[0]], each.trial.config[levers[1]]
        key = text({"": pair[0]}), text({"": pair[1]})
        held = best.get(key)
        if held is None or _better(each, figure, held.figure):
            best[key] = Cell(*pair, figure, shown(each))
    return list(best.values())


def figure_of(standing: Standing) -> float | None:
    """What candidates are compared by: the ratio to the baseline, likely where it was spared; or a latency."""
    if standing.trial.engine == "tilelang":
        return standing.trial.latency_ms
    return standing.ratio


def shown(standing: Standing) -> str:
    """Its figure for a person; of one that was only screened not as if it were exact."""
    figure = figure_of(standing)
    if figure is None:
        return ""
    return f"~{figure:.3f}" if standing.likely is not None else f"{figure:.4f}"


def pivot(found: Sequence[Standing], levers: tuple[str, str], table_format: str = "simple") -> str:
    """Rows are the first lever's values, columns the second's."""
    best = cells(found, levers)
    rows, columns = _values([cell.row for cell in best]), _values([cell.column for cell in best])
    figures = {(text({"": cell.row}), text({"": cell.column})): cell.shown for cell in best}
    body = [[str(row), *(figures.get((text({"": row}), text({"": column})), "") for column in columns)] for row in rows]
    headers = [f"{levers[0]} \\ {levers[1]}", *map(str, columns)]
    return tabulate(body, headers=headers, tablefmt=table_format, disable_numparse=True, stralign="right")


def field(found: Sequence[Standing], most: int, table_format: str = "simple") -> str:
    """The best candidates, one a row."""
    fixed = constant([each.trial.config for each in found])
    rows = []
    for place, each in enumerate(found[:most], start=1):
        interval = f"[{each.estimate.low:.4f}, {each.estimate.high:.4f}]" if each.estimate else ""
        failed = each.trial.status is not Status.PASSED
        rows.append(
            (
                place,
                words(each.trial.config, fixed),
                "" if each.time_ms is None else f"{each.time_ms:.4g}",
                "" if each.ratio is None else shown(each),
                interval,
                "screen" if each.trial.rung == SCREEN else str(each.trial.rung + 1),
                each.trial.origin,
                f"{each.trial.cause}: {each.trial.reason}"[:80] if failed else "",
            )
        )
    headers = ("", "levers", "time_ms", "ratio", "95% interval", "rung", "from", "notes")
    return tabulate(rows, headers=headers, tablefmt=table_format, disable_numparse=True)


def searches(picks: Sequence[Pick], table_format: str = "simple") -> str:
    """Every search of a problem under one model's name: what it took, and what it pinned."""
    rows = [
        (
            each.race,
            each.engine,
            each.candidates,
            each.failed,
            f"{each.seconds:.0f}",
            "" if each.ratio is None else f"{each.ratio:.4f} [{each.ratio_low:.4f}, {each.ratio_high:.4f}]",
            "" if each.latency_ms is None else f"{each.latency_ms:.4g}",
            len(each.ties),
            each.iteration,
        )
        for each in picks
    ]
    headers = ("race", "engine", "candidates", "failed", "seconds", "ratio", "latency_ms", "ties", "pinned as")
    return tabulate(rows, headers=headers, tablefmt=table_format, disable_numparse=True)


def picture(path: Path, found: Sequence[Standing], levers: tuple[str, str], title: str) -> None:
    """Write the heat map, an SVG or a PNG by the file's name; raises UsageError for another."""
    if path.suffix not in PICTURES:
        raise UsageError(f"--picture '{path}' is neither .svg nor .png")
    import vl_convert

    spec = heat_map(found, levers, title)
    if path.suffix == ".svg":
        path.write_text(vl_convert.vegalite_to_svg(spec))
    else:
        path.write_bytes(vl_convert.vegalite_to_png(spec, scale=2))


def heat_map(found: Sequence[Standing], levers: tuple[str, str], title: str) -> dict[str, Any]:
    """The heat map in Vega-Lite: dark is good, and every tile bears its figure."""
    latency = found[0].trial.engine == "tilelang"
    measure = "latency in ms" if latency else "ratio"
    best = cells(found, levers)
    rows = [{"x": str(cell.column), "y": str(cell.row), "figure": cell.figure, "shown": cell.shown} for cell in best]
    down, across = map(str, _values([cell.row for cell in best])), map(str, _values([cell.column for cell in best]))
    figures = sorted(cell.figure for cell in best)
    middle = (figures[0] + figures[-1]) / 2
    dark = f"datum.figure {'<' if latency else '>'} {middle}"
    color = {"field": "figure", "type": "quantitative", "title": measure}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "title": title,
        "data": {"values": rows},
        "width": {"step": 64},
        "height": {"step": 36},
        "encoding": {
            "x": {"field": "x", "type": "ordinal", "title": levers[1], "sort": list(across), "axis": {"labelAngle": 0}},
            "y": {"field": "y", "type": "ordinal", "title": levers[0], "sort": list(down)},
        },
        "layer": [
            {
                "mark": "rect",
                "encoding": {"color": {**color, "scale": {"scheme": "blues", "zero": False, "reverse": latency}}},
            },
            {
                "mark": {"type": "text", "fontSize": 11},
                "encoding": {
                    "text": {"field": "shown", "type": "nominal"},
                    "color": {"condition": {"test": dark, "value": "white"}, "value": "black"},
                },
            },
        ],
    }


def title_of(found: Sequence[Standing], picks: Sequence[Pick]) -> str:
    """One line: the problem, the device, who searched, and what was pinned."""
    trial = found[0].trial
    pinned = next((p for p in reversed(picks) if (p.race, p.engine) == (trial.race, trial.engine)), None)
    outcome = f", pinned as {pinned.iteration}" if pinned else ", not finished"
    return f"{trial.shape_key} on {trial.environment.device}: race {trial.race} by {trial.engine}{outcome}"


def _better(standing: Standing, figure: float, held: float) -> bool:
    return figure < held if standing.trial.engine == "tilelang" else figure > held


def _spread(found: Sequence[Standing], lever: str) -> float:
    """How far the best of each value of a lever lie apart."""
    best: dict[str, float] = {}
    for each in found:
        figure = figure_of(each)
        if figure is not None and lever in each.trial.config:
            value = text({"": each.trial.config[lever]})
            if value not in best or _better(each, figure, best[value]):
                best[value] = figure
    return max(best.values()) / min(best.values()) if best else 0.0


def _values(values: Sequence[Any]) -> list[Any]:
    """Each value once, numbers by size, the rest as they came."""
    once = list({text({"": value}): value for value in values}.values())
    numbers = all(isinstance(value, int | float) for value in once)
    return sorted(once) if numbers else once
