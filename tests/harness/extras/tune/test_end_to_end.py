"""The verb tune on a small space of a CPU family: race, pin, verify, interrupt, continue, and TileLang's engine."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.extras.tune.record import AT_LIMIT, SCREEN, Pick, TuningTrial, picks_path, ranked, trials_path
from harness.extras.tune.space import frozen
from harness.judge import contract
from harness.records.base import Regime, Status
from harness.records.store import read
from tests.harness.checkout import Checkout, one_line, until

SHAPE = "matmul_f32fp32_64x64x64"
MODEL = "tuner"
CHOICE = ("--gpu", "cpu", "--shape", SHAPE, "--model", MODEL)
FLAGS = ("-O3", "-march=native")
# One that the family refuses (64 is no multiple of 24), one that the C++ compiler refuses, the rest far apart.
REGISTER_BLOCKED = f"""[
    dict(block_M=8, block_N=block_N, block_K=64, vector_width=width, compile_flags=flags)
    for block_N in (24, 16)
    for width, flags in ((8, {FLAGS}), (1, ()), (8, ("-no-such-flag",)))
]"""
PLAIN_LOOPS = f'[dict(loop_order="mkn", compile_flags={FLAGS}, pass_configs={{"tl.disable_tma_lower": True}})]'


def with_spaces(root: Path) -> Checkout:
    made = Checkout.create(root)
    set_space(made, "cpu/register_blocked", REGISTER_BLOCKED)
    set_space(made, "cpu/plain_loops", PLAIN_LOOPS)
    return made


def set_space(checkout: Checkout, folder: str, space: str) -> None:
    """Give a family of a checkout another space."""
    with (checkout.root / "kernels" / folder / "family.py").open("a") as file:
        file.write(f"\nfrom dataclasses import replace\n\nFAMILY = replace(FAMILY, space={space})\n")


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    made = with_spaces(tmp_path_factory.mktemp("tune") / "checkout").kept_warm()
    done = made.run("tune", *CHOICE, "--budget", "0.2")
    assert done.returncode == 0, done.stderr
    made.printed = done.stdout  # type: ignore[attr-defined]
    yield made
    made.end()


def test_a_cpu_has_no_power_limit_to_tune_for(tuned: Checkout) -> None:
    done = tuned.run("tune", *CHOICE, "--objective", "sustained")
    assert done.returncode == 2
    assert "a CPU has none here" in one_line(done.stderr)


@pytest.mark.slow
def test_the_rung_at_the_power_limit_is_kept_and_not_repeated(tmp_path: Path) -> None:
    """A CPU has no limit, but its phases run like those of a GPU; its noise alone may exceed their bound."""
    made = with_spaces(tmp_path / "checkout")
    allowed = (
        "import harness.boards.sustained as sustained, harness.judge.plausibility as plausibility; "
        "sustained.no_limit = lambda *_: None; plausibility.MOST_SUSTAINED_GAIN = float('inf')"
    )
    command = ("tune", *CHOICE, "--budget", "0.2", "--objective", "sustained")
    done = made.run(*command, settings=allowed)
    assert done.returncode == 0, done.stderr
    held = [trial for trial in trials(made) if trial.rung == AT_LIMIT]
    assert len(held) == 2 and all(trial.sustained is not None for trial in held)
    (pick,) = picks(made)
    assert pick.objective is Regime.SUSTAINED
    assert pick.sustained_ratio == max(trial.sustained.ratio for trial in held if trial.sustained)
    again = made.run(*command, settings=allowed)
    assert "0 measured, 4 known before" in again.stdout
    assert picks(made) == [pick]
    made.end()


def trials(checkout: Checkout) -> list[TuningTrial]:
    found, problems = read(trials_path(checkout.tree, "cpu", SHAPE, MODEL), TuningTrial)
    assert problems == []
    return found


def raced(checkout: Checkout) -> list[TuningTrial]:
    return [trial for trial in trials(checkout) if trial.engine == "tilebench" and trial.rung != SCREEN]


def picks(checkout: Checkout) -> list[Pick]:
    found, problems = read(picks_path(checkout.tree, "cpu", SHAPE, MODEL), Pick)
    assert problems == []
    return found


def test_the_winner_is_pinned_and_passes_the_judge(tuned: Checkout) -> None:
    path = tuned.folder(SHAPE, MODEL) / "iter001_tuned_register_blocked.py"
    terms = contract.check(tuned.tree.parse(path))
    assert terms.parent == "iter000_torch_matmul"
    assert terms.config == f"block_M=8, block_N=16, block_K=64, vector_width=8, compile_flags={FLAGS}"
    (pick,) = (pick for pick in picks(tuned) if pick.race == 1)
    beaten = "level with 1 more" if pick.ties else "vector_width=1"
    assert "3 configurations of register_blocked" in terms.idea and beaten in terms.idea
    done = tuned.run("verify", *CHOICE, "--iter", "1")
    assert done.returncode == 0, done.stderr


def test_every_candidate_is_kept(tuned: Checkout) -> None:
    first = [trial for trial in trials(tuned) if trial.engine == "tilebench" and trial.race == 1]
    screened = {tuple(trial.config["compile_flags"]): trial for trial in first if trial.rung == SCREEN}
    assert {flags: trial.status for flags, trial in screened.items()} == {
        FLAGS: Status.PASSED,
        (): Status.PASSED,
        ("-no-such-flag",): Status.FAILED,
    }
    assert screened[FLAGS].latency_ms and screened["-no-such-flag",].latency_ms is None
    assert [trial.config["vector_width"] for trial in first if trial.rung != SCREEN and trial.measurement][:1] == [8]
    (pick,) = (pick for pick in picks(tuned) if pick.race == 1)
    assert (pick.candidates, pick.failed, pick.refused) == (3, 1, 3)
    # On a machine with other work the two can tie: rows tie where their intervals reach the winner's.
    winner, *others = (each for each in ranked(first) if each.estimate)
    assert winner.estimate is not None and winner.trial.config == frozen(pick.config)
    level = {each.trial.key for each in others if each.estimate and each.estimate.high >= winner.estimate.low}
    assert set(pick.ties) == level
    assert pick.ratio is not None and pick.ratio > 0


def test_what_is_known_is_not_measured_again(tuned: Checkout) -> None:
    before = len(trials(tuned)), len(picks(tuned)), len(list(tuned.folder(SHAPE, MODEL).iterdir()))
    done = tuned.run("tune", *CHOICE, "--budget", "0.2")
    assert done.returncode == 0, done.stderr
    assert f"0 measured, {len(raced(tuned))} known before" in done.stdout
    assert (len(trials(tuned)), len(picks(tuned)), len(list(tuned.folder(SHAPE, MODEL).iterdir()))) == before


def test_nothing_is_left_behind(tuned: Checkout) -> None:
    assert tuned.leftovers() == []
    assert tuned.processes() == []


def test_a_table_and_a_picture(tuned: Checkout, tmp_path: Path) -> None:
    picture = tmp_path / "map.svg"
    done = tuned.run("searches", *CHOICE, "--levers", "block_N,vector_width", "--picture", str(picture))
    assert done.returncode == 0, done.stderr
    header, _, row = done.stdout.splitlines()[3:6]
    assert header.split() == ["block_N", "\\", "vector_width", "1", "8"]
    best = max(float(figure.removeprefix("~")) for figure in row.split()[1:])
    assert f"{best:.4f}" in tuned.printed  # type: ignore[attr-defined]
    assert picture.read_text().startswith("<svg") and f"{best:.4f}" in picture.read_text()
    wrong = tuned.run("searches", *CHOICE, "--levers", "block_N,nothing")
    assert wrong.returncode == 2 and "does not name two of" in one_line(wrong.stderr)


@pytest.mark.slow
def test_an_interrupted_race_continues(tmp_path: Path) -> None:
    made = with_spaces(tmp_path / "checkout")
    try:
        with made.started("tune", *CHOICE, "--budget", "0.2") as process:
            assert until(lambda: raced(made))
            process.send_signal(signal.SIGINT)
            assert process.wait() == 3
        assert "the same command continues" in made.said
        kept, screened = len(raced(made)), len(trials(made)) - len(raced(made))
        assert until(lambda: not made.processes())
        done = made.run("tune", *CHOICE, "--budget", "0.2")
        assert done.returncode == 0, done.stderr
        assert f"{kept} known before" in done.stdout
        assert len({(trial.key, trial.rung, trial.race) for trial in raced(made)}) == len(raced(made)) >= 1
        assert len(trials(made)) - len(raced(made)) == screened
    finally:
        made.end()


@pytest.mark.slow
def test_interrupted_in_the_screen_it_leaves_nothing(tmp_path: Path) -> None:
    made = Checkout.create(tmp_path / "checkout")
    try:
        with made.started("tune", *CHOICE, "--budget", "0.2") as process:  # the family's whole space
            assert until(lambda: list((made.root / "tmp").rglob("output.txt")))
            process.send_signal(signal.SIGINT)
            assert process.wait() == 3
        assert "the same command continues" in made.said
        assert until(lambda: not made.processes())
        assert made.leftovers() == [] and not raced(made)
    finally:
        made.end()


@pytest.mark.slow
def test_pass_configs_are_pinned_too(tuned: Checkout) -> None:
    choice = ("--gpu", "cpu", "--shape", SHAPE, "--model", "wrapper")
    done = tuned.run("tune", *choice, "--family", "plain_loops", "--budget", "0.2")
    assert done.returncode == 0, done.stderr
    path = tuned.folder(SHAPE, "wrapper") / "iter001_tuned_plain_loops.py"
    assert 'pass_configs={"tl.disable_tma_lower": True}' in path.read_text()
    assert tuned.run("verify", *choice, "--iter", "1").returncode == 0


def test_tilelang_picks_of_the_same_space(tuned: Checkout) -> None:
    done = tuned.run("tune", *CHOICE, "--engine", "tilelang", "--warmup", "3", "--rep", "20")
    assert done.returncode == 0, done.stderr
    assert "resource_tracker" not in done.stderr
    (pick,) = (pick for pick in picks(tuned) if pick.engine == "tilelang")
    assert pick.config["vector_width"] == 8 and pick.latency_ms is not None
    timed = [trial for trial in trials(tuned) if trial.engine == "tilelang"]
    assert sorted(trial.status for trial in timed) == [Status.FAILED, Status.PASSED, Status.PASSED]
    assert pick.latency_ms == min(trial.latency_ms for trial in timed if trial.latency_ms is not None)
    # The race picked the same: it is pinned already.
    assert pick.iteration == "iter001_tuned_register_blocked"


@pytest.mark.slow
def test_its_temporary_files_go_too(tuned: Checkout) -> None:
    done = tuned.run("tune", *CHOICE, "--engine", "tilelang", "--again", "--no-cache", "--warmup", "1", "--rep", "2")
    assert done.returncode == 0, done.stderr
    assert tuned.leftovers() == []


def test_tilelangs_autotuner_has_a_deadline(tuned: Checkout) -> None:
    done = tuned.run("tune", *CHOICE, "--engine", "tilelang", "--limit", "0.01", "--again")
    assert done.returncode == 3
    assert "did not end within 0.01 s" in one_line(done.stderr)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--shape", SHAPE), "needs --shape and --model"),
        (("--shape", "matmul", "--model", "me"), "tune works on one problem"),
        (
            (*CHOICE[2:], "--family", "nothing"),
            "no family 'nothing'; those for a CPU are kernels.cpu.plain_loops",
        ),
        ((*CHOICE[2:], "--iter", "3"), "leave --iter out"),
        ((*CHOICE[2:], "--from", "iter077"), "parent 'iter077' is no iteration"),
        ((*CHOICE[2:], "--engine", "tilelang", "--limit", "nan"), '"nan" for --limit. Must be < inf.'),
        ((*CHOICE[2:], "--engine", "tilelang", "--family", "plain_loops", "--family", "scalar_gemm"), "one family"),
    ],
)
def test_usage(tuned: Checkout, arguments: tuple[str, ...], says: str) -> None:
    done = tuned.run("tune", "--gpu", "cpu", *arguments)
    assert done.returncode == 2
    assert says in one_line(done.stderr)
