"""The screen on families that lie, crash and do not compile: it decides only which candidates are too slow to race."""

import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

import numpy as np
import pytest
from msgspec.structs import replace

from harness.catalog.tree import Tree
from harness.extras.tune.race import MIN_RACED, Measure, Rung, race
from harness.extras.tune.record import SCREEN, TuningTrial, ranked, trials_path
from harness.records.base import Cause, Status
from harness.records.results import BlockPair
from harness.records.store import read
from tests.harness.checkout import ROOT, Checkout
from tests.harness.extras.tune.simulation import Simulated, field_of
from tests.harness.extras.tune.test_end_to_end import CHOICE, trials

FAMILY = '''"""One product in several ways, not all of them right."""

import tilelang.cpu.language as T

from harness.iteration import Program


def odd(problem, *, way, number):
    M, N, K = problem.dims
    rows = M // 2 if way == "half" else M

    @T.prim_func
    def kernel(A: T.Tensor((M, K), "float32"), B: T.Tensor((K, N), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(1):
            for m in T.serial(rows):
                for n in T.serial(N):
                    C[m, n] = 0.0
                for k in T.serial(K):
                    for n in T.serial(N):
                        C[m, n] += A[m, k] * B[k, n]
            if way == "crash":
                T.evaluate(T.call_extern("int32", "raise", 11))

    flags = {"slow": ("-O0",), "unknown": ("-no-such-flag",)}.get(way, ("-O3", "-march=native"))
    return Program(kernel, compile_flags=flags)
'''
# The screen really compiles and launches every way. Only the figure is set, so that a loaded machine reads the same.
CLOCK = """

_MS = {"half": 1.0, "right": 2.0, "slow": 40.0}
_compile, _time = Stopwatch.compile, Stopwatch.time
_ways: dict[int, str] = {}


def _noting(self: Stopwatch, order: CompileCandidate) -> StopwatchAnswer:
    _ways[order.number] = order.entry.config["way"]
    return _compile(self, order)


def _set(self: Stopwatch, order: TimeCandidate) -> StopwatchAnswer:
    answer = _time(self, order)
    return answer if answer.launch_ms is None else StopwatchAnswer(_MS[_ways[order.number]], answer.reason)


Stopwatch.compile, Stopwatch.time = _noting, _set
"""
# As many right ones as are raced in any case; which of them leads is all the same.
DESCRIPTION = f"""
from harness.catalog.families import Family

FAMILY = Family(
    name="kernels.odd.odd",
    operators={{"matmul": ("f32",)}},
    architectures=("c",),
    space=[
        *(dict(way=way, number=0) for way in ("slow", "crash", "half", "unknown")),
        *(dict(way="right", number=number) for number in range({MIN_RACED})),
    ],
)
"""


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    made = Checkout.create(tmp_path_factory.mktemp("screen") / "checkout")
    folder = made.root / "kernels" / "odd"
    folder.mkdir()
    (folder / "__init__.py").write_text(FAMILY)
    (folder / "family.py").write_text(DESCRIPTION)
    with (made.root / "harness/extras/tune/stopwatch.py").open("a") as stopwatch:
        stopwatch.write(CLOCK)
    done = made.run("tune", *CHOICE, "--family", "odd", "--budget", "0.2")
    assert done.returncode == 0, done.stderr
    made.printed = done.stdout  # type: ignore[attr-defined]
    yield made
    made.end()


def outcomes(checkout: Checkout, way: str) -> list[TuningTrial]:
    return [trial for trial in trials(checkout) if trial.config["way"] == way]


@pytest.mark.slow
def test_the_right_one_wins_though_a_wrong_one_was_faster(tuned: Checkout) -> None:
    assert "way=right" in tuned.printed  # type: ignore[attr-defined]
    screened = {trial.config["way"]: trial.latency_ms for trial in trials(tuned) if trial.rung == SCREEN}
    assert screened == {"half": 1.0, "right": 2.0, "slow": 40.0, "unknown": None}
    assert [trial.cause for trial in outcomes(tuned, "half") if trial.rung != SCREEN] == [Cause.WRONG_RESULT]


@pytest.mark.slow
def test_a_crash_in_the_screen_is_judged_by_the_race(tuned: Checkout) -> None:
    (crashed,) = outcomes(tuned, "crash")
    assert crashed.rung != SCREEN and crashed.cause is Cause.CRASH


@pytest.mark.slow
def test_a_candidate_that_does_not_compile_is_not_raced(tuned: Checkout) -> None:
    (refused,) = outcomes(tuned, "unknown")
    assert (refused.rung, refused.cause) == (SCREEN, Cause.COMPILE)
    assert re.search(r"no-such-flag.*, at kernels/odd/__init__\.py:\d+: flags = ", refused.reason or "")


@pytest.mark.slow
def test_a_candidate_far_behind_is_spared_and_shown_as_likely(tuned: Checkout) -> None:
    slow = outcomes(tuned, "slow")
    assert slow and all((trial.rung, trial.status) == (SCREEN, Status.PASSED) for trial in slow)
    assert "1 too slow in the screen" in tuned.printed  # type: ignore[attr-defined]
    found = ranked(trials(tuned))
    right = [each.estimate.ratio for each in found if each.trial.config["way"] == "right" and each.estimate]
    (likely,) = {each.likely for each in found if each.trial.config["way"] == "slow"}
    assert likely == pytest.approx(median(right) * 2.0 / 40.0)  # as the screen's times are
    assert likely is not None and likely < min(right)
    shown = tuned.run("searches", *CHOICE, "--levers", "way,way")
    assert shown.returncode == 2  # one lever only
    assert tuned.leftovers() == [] and tuned.processes() == []


def replayed(model: str, race_number: int, engine: str, shape_key: str) -> dict[str, list[BlockPair]]:
    """All blocks of each candidate of a race on an H200."""
    path = trials_path(Tree(ROOT), "h200", shape_key, model)
    blocks: dict[str, list[BlockPair]] = {}
    for trial in read(path, TuningTrial)[0]:
        if (trial.engine, trial.race) == (engine, race_number) and trial.measurement:
            held = blocks.setdefault(trial.key, [])
            after = max((each.placement for each in held), default=-1) + 1
            held += (replace(each, placement=after + each.placement) for each in trial.measurement.blocks)
    return blocks


def screened(race_number: int, shape_key: str) -> dict[str, float]:
    path = trials_path(Tree(ROOT), "h200", shape_key, "tuner")
    recorded = [each for each in read(path, TuningTrial)[0] if (each.engine, each.race) == ("tilebench", race_number)]
    return {each.key: each.latency_ms or 0.0 for each in reversed(recorded) if each.rung == SCREEN}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape_key", "screen", "model", "engine", "race_number", "raced", "at_most", "level"),
    [
        ("matmul_bf16fp32_4096x4096x4096", 3, "tuner", "tilebench", 3, 105, 8, 2),
        ("matmul_bf16fp32_2048x2048x16384", 11, "exhaustive", "exhaustive", 1, 30, 8, 1),
        ("attention_bf16fp32_16x16x16x1024x128x128", 1, "tuner", "tilebench", 1, 28, 10, 1),
        ("matmul_bf16fp32_1024x1024x1024", 2, "tuner", "tilebench", 2, 111, 8, 1),
    ],
)
def test_replayed_on_an_h200_it_spares_most_and_changes_nothing(
    shape_key: str, screen: int, model: str, engine: str, race_number: int, raced: int, at_most: int, level: int
) -> None:
    """These were raced without a screen, or with a wider margin. With the screen few are raced, and the same wins."""
    blocks = replayed(model, race_number, engine, shape_key)
    assert len(blocks) == raced
    asked: list[str] = []

    def measure(rung: int, keys: Sequence[str]) -> Iterator[tuple[str, Sequence[BlockPair] | None]]:
        for key in keys:
            asked.append(key)
            yield key, blocks[key]

    only = (Rung(8, 6, full=True),)  # all blocks at once, whichever rung they are of
    every = race(list(blocks), measure, only)
    asked.clear()
    finish = race(list(blocks), measure, only, screened(screen, shape_key))
    assert finish.left == every.left and len(finish.left) == level
    assert len(asked) <= at_most


def measured(truth: Mapping[str, float | None], asked: list[str]) -> Measure:
    """A judge without noise; a ratio of None is a wrong candidate."""

    def measure(rung: int, keys: Sequence[str]) -> Iterator[tuple[str, Sequence[BlockPair] | None]]:
        for key in keys:
            ratio = truth[key]
            asked.append(key)
            yield key, None if ratio is None else [BlockPair(place, 1.0, 1.0 / ratio) for place in range(4)]

    return measure


def test_the_fastest_in_the_screen_are_raced_until_one_is_right() -> None:
    asked: list[str] = []
    wrong = [f"wrong{number}" for number in range(MIN_RACED + 1)]
    right = [f"right{number}" for number in range(MIN_RACED)]
    truth: dict[str, float | None] = {**dict.fromkeys(wrong), **dict.fromkeys(right, 1.0), "slow": 0.5}
    screened_ms = {**dict.fromkeys(wrong, 1.0), **dict.fromkeys(right, 2.0), "slow": 4.0}
    finish = race(list(truth), measured(truth, asked), screened_ms=screened_ms)
    assert (finish.left, finish.spared) == (right, ["slow"])
    assert asked[: len(wrong)] == wrong and "slow" not in asked


def test_where_screen_and_race_disagree_more_are_raced() -> None:
    """Two equals in the screen are 20% apart in the race. So another, 15% behind, may lead, and does."""
    level = [f"level{number}" for number in range(MIN_RACED - 1)]
    truth = {**dict.fromkeys(level, 1.0), "other": 1.2, "third": 1.22, "fourth": 0.5}
    screened_ms = {**dict.fromkeys(level, 1.0), "other": 1.0, "third": 1.15, "fourth": 2.5}
    finish = race(list(truth), measured(truth, []), screened_ms=screened_ms)
    assert (finish.left, finish.spared) == (["third"], ["fourth"])
    agreed = truth | {"other": 1.0}
    assert race(list(agreed), measured(agreed, []), screened_ms=screened_ms).spared == ["third", "fourth"]


def test_without_a_time_a_candidate_is_raced() -> None:
    truth = {"timed": 1.0, "untimed": 1.1}
    finish = race(list(truth), measured(truth, []), screened_ms={"timed": 1.0})
    assert finish.left == ["untimed"] and not finish.spared


@pytest.mark.slow
def test_a_screen_saves_most_and_spares_no_best() -> None:
    for seed in range(12):
        random = np.random.default_rng(seed)
        field = Simulated(field_of(100, random), random)
        finish = field.screened_race()
        assert max(field.truth, key=lambda key: field.truth[key]) in finish.left
        assert field.starts < 40
