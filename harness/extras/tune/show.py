"""What a search found, over any two levers: a pivot table for a terminal, and a heat map as a picture."""

from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from harness.errors import UsageError
from harness.extras.tune.record import SCREEN, Pick, RankedCandidate, TuningTrial, ranked
from harness.extras.tune.space import constant, text, words
from harness.machine import hints
from harness.machine.table import PLAIN, bounded, figure, interval, table, width
from harness.records.base import Status

PICTURES: Final = (".svg", ".png")
Levers = tuple[str, str]


def chosen(trials: Sequence[TuningTrial], engine: str, race: int | None) -> list[RankedCandidate]:
    """The candidates of one search, by default the newest of an engine; raises UsageError."""
    races = {trial.race for trial in trials if trial.engine == engine}
    if not races:
        raise UsageError(
            f"no search by {engine} is recorded here; run {hints.program()} tune with --shape and --model first"
        )
    number = max(races) if race is None else race
    if number not in races:
        raise UsageError(f"there is no race {number} by {engine}; there are {', '.join(map(str, sorted(races)))}")
    found = ranked(trial for trial in trials if trial.engine == engine and trial.race == number)
    if all(each.figure is None for each in found):
        raise UsageError(f"no candidate of race {number} by {engine} passed; the first said: {found[0].trial.reason}")
    return found


def levers_of(found: Sequence[RankedCandidate], named: str | None) -> Levers:
    """The two levers to show: those named as ``block_M,block_N``, else the two with the largest effect."""
    configs = [each.trial.config for each in found]
    known = dict.fromkeys(name for config in configs for name in config)
    if named is not None:
        pair = [name.strip() for name in named.split(",")]
        if len(pair) != 2 or pair[0] == pair[1] or not set(pair) <= known.keys():
            raise UsageError(f"--levers '{named}' does not name two of {', '.join(sorted(known))}")
        return pair[0], pair[1]
    fixed = constant(configs)
    varied = [name for name in known if name not in fixed]
    if len(varied) < 2:
        raise UsageError("fewer than two levers vary here; name two with --levers")
    first, second = sorted(varied, key=lambda name: -_effect(found, name))[:2]
    return first, second


def cells(found: Sequence[RankedCandidate], levers: Sequence[str]) -> list[RankedCandidate]:
    """The best candidate at each combination of the levers' values."""
    best: dict[tuple[str, ...], RankedCandidate] = {}
    for each in found:
        if each.figure is not None and all(lever in each.trial.config for lever in levers):
            key = tuple(_key(each.trial.config[lever]) for lever in levers)
            if key not in best or each.beats(best[key]):
                best[key] = each
    return list(best.values())


def pivot(found: Sequence[RankedCandidate], levers: Levers, table_format: str = "simple") -> str:
    """Rows are the first lever's values, columns the second's; a row for each pair where that is too wide."""
    best = cells(found, levers)
    rows, columns = (_values(best, lever) for lever in levers)
    figures = {tuple(_key(each.trial.config[lever]) for lever in levers): each.shown for each in best}
    head, *names = f"{levers[0]} \\ {levers[1]}", *map(str, columns)
    lines = [{head: str(row), **{str(c): figures.get((_key(row), _key(c)), "") for c in columns}} for row in rows]
    shown = table(lines, {name: itemgetter(name) for name in (head, *names)}, table_format, right=(head, *names))
    if table_format != PLAIN or len(shown.partition("\n")[0]) <= width():
        return shown
    values = {name: lambda each, name=name: str(each.trial.config.get(name)) for name in levers}
    return table(best, {**values, "best": lambda each: each.shown}, right=(*levers, "best"))


def field(found: Sequence[RankedCandidate], most: int, table_format: str = "simple") -> str:
    """The best candidates, one a row."""
    fixed = constant([each.trial.config for each in found])

    def notes(each: RankedCandidate) -> str:
        trial = each.trial
        return "" if trial.status is Status.PASSED else f"{trial.cause}: {trial.reason}"[:80]

    return table(
        enumerate(found[:most], start=1),
        {
            "": lambda row: row[0],
            "levers": lambda row: words(row[1].trial.config, fixed),
            "time_ms": lambda row: figure(row[1].time_ms),
            "ratio": lambda row: "" if row[1].ratio is None else row[1].shown,
            "95% interval": lambda row: interval(row[1].estimate.low, row[1].estimate.high) if row[1].estimate else "",
            "sustained": lambda row: figure(row[1].sustained.ratio, ".4f") if row[1].sustained else "",
            "rung": lambda row: "screen" if row[1].trial.rung == SCREEN else row[1].trial.rung + 1,
            "from": lambda row: row[1].trial.origin,
            "notes": lambda row: notes(row[1]),
        },
        table_format,
        right=("", "time_ms", "ratio", "sustained"),
        optional=("notes", "from", "rung", "time_ms", "sustained"),
    )


def searches(picks: Sequence[Pick], table_format: str = "simple") -> str:
    """Every search of a problem under one model's name: what it took, and what it pinned."""
    return table(
        picks,
        {
            "race": lambda each: each.race,
            "engine": lambda each: each.engine,
            "candidates": lambda each: each.candidates,
            "failed": lambda each: each.failed,
            "seconds": lambda each: f"{each.seconds:.0f}",
            "ratio": bounded,
            "latency_ms": lambda each: figure(each.latency_ms),
            "ties": lambda each: len(each.ties),
            "pinned as": lambda each: each.iteration,
        },
        table_format,
        right=("race", "candidates", "failed", "seconds", "latency_ms", "ties"),
        optional=("latency_ms", "ties", "failed"),
        cut={"pinned as": 16},
    )


def picture(path: Path, found: Sequence[RankedCandidate], levers: Levers, title: str) -> None:
    """Write the heat map, an SVG or a PNG by the file's name; raises UsageError for another."""
    if path.suffix not in PICTURES:
        raise UsageError(f"--picture '{path}' is neither .svg nor .png")
    import vl_convert

    spec = heat_map(found, levers, title)
    if path.suffix == ".svg":
        path.write_text(vl_convert.vegalite_to_svg(spec))
    else:
        path.write_bytes(vl_convert.vegalite_to_png(spec, scale=2))


def heat_map(found: Sequence[RankedCandidate], levers: Levers, title: str) -> dict[str, Any]:
    """The heat map in Vega-Lite: dark is good, and every tile shows its figure."""
    latency = found[0].by_latency
    best = cells(found, levers)
    down, across = ([str(value) for value in _values(best, lever)] for lever in levers)
    rows: list[dict[str, object]] = [
        {"y": str(each.trial.config[levers[0]]), "x": str(each.trial.config[levers[1]])}
        | {"figure": each.figure, "shown": each.shown}
        for each in best
    ]
    figures = [each.figure or 0.0 for each in best]
    dark = f"datum.figure {'<' if latency else '>'} {(min(figures) + max(figures)) / 2}"
    color = {"field": "figure", "type": "quantitative", "title": "latency in ms" if latency else "ratio"}
    return {
        "title": title,
        "data": {"values": rows},
        "width": {"step": 64},
        "height": {"step": 36},
        "encoding": {
            "x": {"field": "x", "type": "ordinal", "title": levers[1], "sort": across, "axis": {"labelAngle": 0}},
            "y": {"field": "y", "type": "ordinal", "title": levers[0], "sort": down},
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


def title_of(found: Sequence[RankedCandidate], picks: Sequence[Pick]) -> str:
    """The problem, the device, the engine, and the pinned iteration, in one line."""
    trial = found[0].trial
    pinned = next((p for p in reversed(picks) if (p.race, p.engine) == (trial.race, trial.engine)), None)
    outcome = f", pinned as {pinned.iteration}" if pinned else ", not finished"
    return f"{trial.shape_key} on {trial.environment.device}: race {trial.race} by {trial.engine}{outcome}"


def _effect(found: Sequence[RankedCandidate], lever: str) -> float:
    """The quotient of the largest and the smallest of the best figures at each value of a lever."""
    figures = [each.figure or 0.0 for each in cells(found, (lever,))]
    return max(figures) / min(figures) if figures else 0.0


def _key(value: Any) -> str:
    """The same for equal values, also where one of them was read from JSON."""
    return text({"": value})


def _values(found: Sequence[RankedCandidate], lever: str) -> list[Any]:
    """Each value of a lever once: numbers by size, others as they came."""
    once = list({_key(each.trial.config[lever]): each.trial.config[lever] for each in found}.values())
    return sorted(once) if all(isinstance(value, int | float) for value in once) else once
