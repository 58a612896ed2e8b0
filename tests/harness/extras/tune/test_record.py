"""The records of a search, when they are used again, and how they are shown."""

from typing import Any

import msgspec
import pytest

from harness.catalog import gpus
from harness.catalog.tree import Tree
from harness.errors import UsageError
from harness.extras.tune import pin, show
from harness.extras.tune.race import joined
from harness.extras.tune.record import TuningTrial, ranked
from harness.extras.tune.search import ENGINE, History
from harness.extras.tune.survey import SpaceEntry
from harness.judge import contract
from harness.judge.facts.problem import parse_shape_key
from harness.records.base import Cause, Status
from harness.records.results import BlockPair, Measurement
from tests.harness.examples import ENVIRONMENT, measurement

FAMILY = "kernels.cpu.register_blocked"


def measured(ratio: float, placements: int = 4) -> Measurement:
    blocks = tuple(BlockPair(place, 1.0, 1.0 / (ratio + 0.001 * (place % 2))) for place in range(placements))
    return measurement(ratio, ratio + 0.001, blocks=blocks)


def trial(ratio: float | None, **changes: Any) -> TuningTrial:
    fields: dict[str, Any] = {
        "schema": 1,
        "recorded_at": "2026-01-01T00:00:00.000+00:00",
        "gpu": "cpu",
        "shape_key": "matmul_f32fp32_64x64x64",
        "model": "tuner",
        "engine": ENGINE,
        "race": 1,
        "rung": 0,
        "family": FAMILY,
        "config": {"block_M": 8, "block_N": 16},
        "origin": "space",
        "families_sha256": "families",
        "environment": ENVIRONMENT,
        "status": Status.PASSED if ratio is not None else Status.FAILED,
        "cause": None if ratio is not None else Cause.COMPILE,
        "reason": None if ratio is not None else "it does not compile",
        "measurement": measured(ratio) if ratio is not None else None,
    }
    return TuningTrial(**fields | changes)


def history(*trials: TuningTrial) -> History:
    return History(list(trials), [], ENGINE, ENVIRONMENT, {FAMILY: "families"})


def at(ratio: float | None, block_M: int, block_N: int, **changes: Any) -> TuningTrial:  # noqa: N803
    return trial(ratio, config={"block_M": block_M, "block_N": block_N, "pack_B": True}, **changes)


def test_a_trial_survives_its_line() -> None:
    made = trial(1.0, config={"compile_flags": ("-O3",), "block_M": 8})
    read = msgspec.json.decode(msgspec.json.encode(made), type=TuningTrial)
    assert read.key == made.key
    assert ranked([read])[0].trial.config == made.config


def test_rungs_of_a_candidate_are_one_standing() -> None:
    found = ranked([at(1.0, 4, 16), at(1.2, 8, 16), at(1.04, 4, 16, rung=1)])
    assert [each.trial.config["block_M"] for each in found] == [8, 4]
    assert len({block.placement for block in found[1].blocks}) == 8
    assert found[1].estimate is not None and 1.0 < found[1].estimate.ratio < 1.05
    assert len(joined([measured(1.0).blocks, measured(1.0).blocks])) == 8


def test_one_that_failed_on_its_last_rung_has_no_estimate() -> None:
    found = ranked([at(1.0, 4, 16), at(None, 4, 16, rung=1), at(0.5, 8, 16)])
    assert [each.estimate is None for each in found] == [False, True]


@pytest.mark.parametrize(
    "changes",
    [
        {"families_sha256": "others"},
        {"engine": "tilelang"},
        {"environment": msgspec.structs.replace(ENVIRONMENT, device="Another processor")},
        {"environment": msgspec.structs.replace(ENVIRONMENT, tilelang="0.1.16")},
        {"environment": msgspec.structs.replace(ENVIRONMENT, judge_sha256="another")},
    ],
)
def test_an_outcome_of_other_sources_versions_or_devices_is_not_used_again(changes: dict[str, Any]) -> None:
    ours, theirs = history(trial(1.0)), history(trial(1.0, **changes))
    assert ours.race(again=False) == 1
    assert len(ours.of_race(1)) == 1
    assert theirs.race(again=False) == 2
    assert theirs.of_race(1) == []


def test_again_is_a_new_race_and_goes_on_as_such() -> None:
    assert history(trial(1.0)).race(again=True) == 2
    assert history(trial(1.0), trial(1.0, race=2)).race(again=False) == 2


def test_what_the_machine_may_have_caused_is_tried_again() -> None:
    earlier = history(trial(None, cause=Cause.REFEREE), trial(None))
    assert [each.cause for each in earlier.of_race(1)] == [Cause.COMPILE]


def test_a_cell_is_the_best_over_all_other_levers() -> None:
    found = ranked([at(1.0, 16, 32), trial(1.2, config={"block_M": 16, "block_N": 32, "pack_B": False})])
    (best,) = show.cells(found, ("block_M", "block_N"))
    assert best.trial.config == {"block_M": 16, "block_N": 32, "pack_B": False}
    assert best.figure == pytest.approx(1.2, abs=0.01)


def test_a_pivot_is_ordered_by_size() -> None:
    found = ranked([at(1.0, 8, 128), at(1.1, 16, 64), at(0.9, 128, 64)])
    header, _, *rows = show.pivot(found, ("block_M", "block_N")).splitlines()
    assert header.split()[-2:] == ["64", "128"]
    assert [row.split()[0] for row in rows] == ["8", "16", "128"]


def test_a_pivot_that_is_too_wide_has_a_row_for_each_pair() -> None:
    found = ranked([at(1.0, 8, 1 << width) for width in range(4, 20)])
    header, _, *rows = (shown := show.pivot(found, ("block_M", "block_N"))).splitlines()
    assert header.split() == ["block_M", "block_N", "best"]
    assert len(rows) == 16 and max(map(len, shown.splitlines())) <= 80


def test_the_levers_that_matter_most_are_shown() -> None:
    found = ranked([at(1.0, 8, 16), at(0.5, 4, 16), at(0.98, 8, 32)])
    assert show.levers_of(found, None) == ("block_M", "block_N")
    assert show.levers_of(found, "block_N, pack_B") == ("block_N", "pack_B")
    for wrong in ("block_N", "block_N,block_N", "block_N,nothing", ""):
        with pytest.raises(UsageError):
            show.levers_of(found, wrong)


def test_a_search_without_results_says_so() -> None:
    with pytest.raises(UsageError, match="no search by tilebench"):
        show.chosen([], ENGINE, None)
    with pytest.raises(UsageError, match="it does not compile"):
        show.chosen([at(None, 8, 16)], ENGINE, None)
    with pytest.raises(UsageError, match="there are 1"):
        show.chosen([at(1.0, 8, 16)], ENGINE, 4)


def test_a_picture_of_latencies_is_dark_where_they_are_short(tmp_path: Any) -> None:
    found = ranked([at(None, 8, 16, engine="tilelang", latency_ms=1.0, status=Status.PASSED)])
    assert show.heat_map(found, ("block_M", "block_N"), "title")["layer"][0]["encoding"]["color"]["scale"]["reverse"]
    show.picture(tmp_path / "map.png", found, ("block_M", "block_N"), "title")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UsageError, match=r"neither \.svg nor \.png"):
        show.picture(tmp_path / "map.jpg", found, ("block_M", "block_N"), "title")


@pytest.mark.parametrize("ties", [0, 1, 2])
def test_a_pinned_winner_keeps_the_contract(tmp_path: Any, ties: int) -> None:
    order = ranked([at(1.2, 8, 16), at(1.19, 8, 32), at(0.5, 4, 16)])
    entries = [SpaceEntry(FAMILY, each.trial.config, "space") for each in order]
    idea = pin.raced(entries, order, ties, "torch.matmul")
    problem = parse_shape_key("matmul_f32fp32_64x64x64")
    made = pin.pin(Tree(tmp_path), problem, gpus.find("cpu"), "tuner", entries[0], idea)
    terms = contract.check(made)
    assert (made.number, made.tag, terms.parent) == (1, "tuned_register_blocked", "iter000_torch_matmul")
    assert terms.config == "block_M=8, block_N=16, pack_B=True"
    assert ("level with" in terms.idea) == (ties > 0) and ("ahead of" in terms.idea) == (ties < 2)
    again = pin.pin(Tree(tmp_path), problem, gpus.find("cpu"), "tuner", entries[1], idea)
    assert again.number == 2 and contract.check(again).parent == made.name
